"""MCP servers for a session: each says what it is, and a kind nobody knows is kept."""

from collections.abc import Sequence

from ..base import Model, Nullable, Raw
from ..mcp import HttpHeader, McpServerAcp
from ..terminals import EnvVariable
from .base import AbsolutePath


class McpServerStdio(Model, tag_field="type", tag="stdio", kw_only=True):
    """A server to start as a process."""

    name: str
    command: AbsolutePath
    args: Nullable[Sequence[str]] = []
    env: Nullable[Sequence[EnvVariable]] = []


class McpServerHttp(Model, tag_field="type", tag="http", kw_only=True):
    """A server reached over streamable HTTP."""

    name: str
    url: str
    headers: Nullable[Sequence[HttpHeader]] = []


McpServer = McpServerHttp | McpServerAcp | McpServerStdio | Raw
