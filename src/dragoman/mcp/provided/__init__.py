"""MCP servers that a client offers its agents over ACP: servers in its process, and processes that it starts."""

from .servers import ProvidedServers

__all__ = ["ProvidedServers"]
