"""MCP servers a client gives a session, as an agent uses them: `connected` starts or reaches one."""

from .connections import McpFailure
from .servers import SessionServer, ToolContent, ToolInfo, connected

__all__ = ["McpFailure", "SessionServer", "ToolContent", "ToolInfo", "connected"]
