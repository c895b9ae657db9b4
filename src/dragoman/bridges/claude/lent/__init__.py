"""Claude's file and shell tools, run through the client by the MCP server `acp`, with its own permission checks."""
