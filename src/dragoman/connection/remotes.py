"""The peer at the other end of a connection, as an object to call."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from .. import codec
from .. import schema as s
from ..errors import NotOffered
from ..events import Method
from ..roles import AgentRole, ClientRole, checked
from ..signatures import READABLE, Role, offered
from .connection import Connection

T = TypeVar("T")


class Remote(Role):
    """The peer at the other end of a connection, as an object: calling a method sends the message."""

    offers: s.AgentCapabilities | s.ClientCapabilities  # its capabilities; empty until it has told them

    def __init__(self, wire: Connection) -> None:
        self.wire = wire

    async def _request(self, method: Method, params: Any) -> Any:
        if method.capability:
            self.must_offer(method)
        return await self.wire.call(method, checked(method, params))

    def _notify(self, method: Method, params: Any) -> None:
        if method.capability:
            self.must_offer(method)
        self.wire.note(method, params)

    @overload
    async def request(self, name: str, params: object = None) -> Any: ...
    @overload
    async def request(self, name: str, params: object = None, result: type[T] = ...) -> T: ...
    @overload  # a type that is not a class, such as a union
    async def request(self, name: str, params: object = None, result: Any = ...) -> Any: ...
    async def request(self, name: str, params: object = None, result: Any = Any) -> Any:
        """Call an extension method of the protocol; `result` is the type of its answer."""
        try:
            method = Method(name, Any, codec.readable(result))
        except TypeError as exc:
            raise TypeError(f"the result of {name} cannot be read: {exc}. {READABLE}") from None
        return await self.wire.call(method, {} if params is None else params)

    def notify(self, name: str, params: object = None) -> None:
        """Send an extension notification of the protocol."""
        self.wire.note(Method(name, Any, is_request=False), {} if params is None else params)

    async def room(self) -> None:
        """Wait until the transport takes more; await it between notifications when you send many."""
        if self.wire.is_full:
            await self.wire.room()

    def must_offer(self, method: Method) -> None:
        """Raise NotOffered unless the peer has announced the capability that a method needs."""
        if not offered(self.offers, method.capability):
            raise NotOffered(
                f"{method.name} needs the capability {method.capability}, which the peer does not offer"
            )


class McpLine(Protocol):
    """An agent's end of a connection to an MCP server in its client."""

    def heard(self, params: s.ConnectionMcpNotification) -> None:
        """Hear a notification of the server."""

    async def asked(self, params: s.ConnectionMcpRequest) -> object:
        """Answer a request of the server; raises RpcError."""


class RemoteAgent(Remote, AgentRole):
    """An agent at the other end of a connection."""

    offers: s.AgentCapabilities = s.AgentCapabilities()


class RemoteClient(Remote, ClientRole):
    """A client at the other end of a connection."""

    offers: s.ClientCapabilities = s.ClientCapabilities()

    def __init__(self, wire: Connection) -> None:
        super().__init__(wire)
        # The receivers of notifications about a request to an MCP server in the client, by server and request.
        self.mcp_hearers: dict[tuple[str, str], Callable[[s.MessageMcpNotification], None]] = {}
        self.mcp_lines: dict[str, McpLine] = {}  # connections to servers in the client, of the first generation
