"""MCP servers that one side offers the other over ACP: servers in its process, and processes that it starts."""

from .exposed import ExposedServers
from .servers import ProvidedServers

__all__ = ["ExposedServers", "ProvidedServers"]
