"""Transports for each kind of MCP server, with limits: a process, an address, the client itself."""
