"""How each kind of MCP server is reached, bounded: a process, an address, the client itself."""
