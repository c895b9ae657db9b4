"""MCP servers a client gives a session, as an agent uses them: `connected` starts or reaches one."""

from .connections import Failure
from .servers import Content, Server, ToolInfo, connected

__all__ = ["Content", "Failure", "Server", "ToolInfo", "connected"]
