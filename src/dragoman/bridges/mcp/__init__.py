"""Any agent as an MCP server: `dragoman mcp --agent NAME` gives MCP hosts tools that drive it."""
