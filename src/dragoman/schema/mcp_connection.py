"""MCP spoken through ACP, first generation: connections open and close, messages name theirs.  Frozen."""

from typing import TYPE_CHECKING, Any

from .base import Exact, JsonObject, Model, Shape
from .mcp import McpServerAcpId, MessageMcpNotification, MessageMcpRequest

McpConnectionId = str


class ConnectMcpRequest(Model, kw_only=True):
    """Opens a connection to one of the client's MCP servers."""

    server_id: McpServerAcpId


class ConnectMcpResponse(Model, kw_only=True):
    """The id of the connection."""

    connection_id: McpConnectionId


class DisconnectMcpRequest(Model, kw_only=True):
    """Closes such a connection."""

    connection_id: McpConnectionId


class DisconnectMcpResponse(Model):
    """An empty response: it is done."""


# The schema calls these three MessageMcp..., the names the second generation took over.
class ConnectionMcpRequest(Model, kw_only=True):
    """An MCP request over such a connection."""

    connection_id: McpConnectionId
    method: str
    params: Exact[JsonObject | None] = None


class ConnectionMcpNotification(Model, kw_only=True):
    """An MCP notification over such a connection."""

    connection_id: McpConnectionId
    method: str
    params: JsonObject | None = None


ConnectionMcpResponse = Any  # the result of the inner MCP request, as it is


# On the wire both generations share the method `mcp/message`; only the key they name their server by differs.
if TYPE_CHECKING:
    AnyMcpRequest = MessageMcpRequest | ConnectionMcpRequest
    AnyMcpNotification = MessageMcpNotification | ConnectionMcpNotification
else:

    class AnyMcpRequest(Shape, keys={"connectionId": ConnectionMcpRequest}, bare=MessageMcpRequest):
        """A request of either generation."""

    class AnyMcpNotification(Shape, keys={"connectionId": ConnectionMcpNotification}, bare=MessageMcpNotification):
        """A notification of either generation."""
