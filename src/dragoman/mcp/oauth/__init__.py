"""Logins at MCP servers over HTTP: OAuth, its page shown through the client, its tokens kept for the user."""
