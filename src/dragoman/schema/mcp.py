"""MCP servers for a session, and MCP spoken through ACP (its second generation, by server id)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError

from .base import UNSET, Bare, Exact, Int32, JsonObject, Model, Nullable, Shape, UnsetType
from .terminals import EnvVariable

McpServerAcpId = str
McpRequestId = str


class HttpHeader(Model, kw_only=True):
    """A header of HTTP requests to an MCP server."""

    name: str
    value: str


class McpServerStdio(Model, kw_only=True):
    """A server to start as a process; the one kind every agent takes."""

    name: str
    command: str
    args: Nullable[Sequence[str]]
    env: Nullable[Sequence[EnvVariable]]


class McpServerHttp(Model, tag_field="type", tag="http", kw_only=True):
    """A server reached over streamable HTTP."""

    name: str
    url: str
    headers: Nullable[Sequence[HttpHeader]]


class McpServerSse(Model, tag_field="type", tag="sse", kw_only=True):
    """A server reached over HTTP with server-sent events, MCP's older transport."""

    name: str
    url: str
    headers: Nullable[Sequence[HttpHeader]]


class McpServerAcp(Model, tag_field="type", tag="acp", kw_only=True):
    """A server the client itself provides, reached with `mcp/message`.  Unstable."""

    name: str
    server_id: McpServerAcpId


if TYPE_CHECKING:
    McpServer = McpServerHttp | McpServerSse | McpServerAcp | McpServerStdio
else:

    class McpServer(Shape, tag="type", tagged=(McpServerHttp, McpServerSse, McpServerAcp), bare=McpServerStdio):
        """A stdio server has no `type` in v1; one that says "stdio" all the same is taken as such."""


class MessageMcpRequest(Model, kw_only=True):
    """An MCP request to one of the client's servers."""

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: Exact[JsonObject | None] = None


class MessageMcpNotification(Model, kw_only=True):
    """What a server has to say about a request that is still open."""

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: Exact[JsonObject | None] = None


class McpError(Bare, kw_only=True):
    """The error with which an MCP server answered."""

    code: Int32
    message: str
    data: Any = UNSET


class MessageMcpResponse(Model, kw_only=True):
    """What the server answered: a result, null too, or an error; the result counts if both are there."""

    # One struct for two untagged arms: which it is shows by the key alone.
    result: Any = UNSET
    error: McpError | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.result is UNSET and self.error is UNSET:
            raise ValidationError("Object needs `result` or `error`")
