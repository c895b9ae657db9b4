"""Claude's file and shell tools, done through the client: the MCP server `acp`, with permissions of its own."""
