"""MCP over ACP: a server at the other end of the connection, reached by `mcp/message`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ... import schema as s
from ...agent.turn import new_id
from ...connection.remotes import RemoteClient
from ...errors import Error, RpcError
from .answers import Streams
from .older_acp import OlderConnection

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

    from .older_acp import ToLibrary

WAITING = 64  # messages in each direction before their sender has to wait
NO_ANSWER = -32603
REFUSED = (-32600, -32601, -32602)  # error codes of a client that may know only connections
CANCELLED, DISCOVER = "notifications/cancelled", "server/discover"


class McpCarrier(Protocol):
    """Carries requests to servers: a client, or a session of an agent that offers servers."""

    mcp_hearers: dict[tuple[str, str], Callable[[s.MessageMcpNotification], None]]

    async def message_mcp(self, params: s.MessageMcpRequest) -> object:
        """Send a request; returns the encoded answer."""


@contextlib.asynccontextmanager
async def relayed(carrier: McpCarrier, server_id: str, older: RemoteClient | None = None) -> AsyncIterator[Streams]:
    """The library's two streams; its requests and cancellations become ours.

    `older` is a client that may know only connections, as in the first generation of MCP over ACP: one is opened as
    soon as it refuses a request without one.
    """
    import anyio

    to_library, receiving = anyio.create_memory_object_stream[Any](WAITING)
    sending, from_library = anyio.create_memory_object_stream[Any](WAITING)
    async with to_library, receiving, sending, from_library, anyio.create_task_group() as group:
        relay = _Relay(carrier, server_id, older, to_library)
        try:
            group.start_soon(relay.run, from_library, group)
            yield receiving, sending
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await relay.close()


class _Relay:
    """Passes on the library's messages, each request in a task of its own."""

    def __init__(
        self, carrier: McpCarrier, server_id: str, older: RemoteClient | None, to_library: "ToLibrary"
    ) -> None:
        self._carrier, self._server_id, self._older = carrier, server_id, older
        self._to_library = to_library
        self._under_way: dict[int | str, CancelScope] = {}
        self._line: OlderConnection | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """End the connection, if there is one."""
        if self._line:
            await self._line.close()

    async def run(self, from_library: "MemoryObjectReceiveStream[SessionMessage]", group: "TaskGroup") -> None:
        """Pass on all messages of the library."""
        import anyio
        import mcp_types as types

        async for item in from_library:
            match item.message:
                case types.JSONRPCRequest() as request:
                    scope = self._under_way[request.id] = anyio.CancelScope()
                    group.start_soon(self._exchange, request, scope)
                case types.JSONRPCNotification(method=method) as note if method == CANCELLED:
                    cancelled = self._under_way.pop((note.params or {}).get("requestId", ""), None)
                    if cancelled:  # and with it the request of ours
                        cancelled.cancel()
                case types.JSONRPCNotification() as note:
                    if self._line:
                        self._line.tell(note)
                case answer:
                    if self._line:
                        self._line.answered(answer)

    async def _exchange(self, request: "JSONRPCRequest", scope: "CancelScope") -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        try:
            with scope, contextlib.suppress(anyio.BrokenResourceError):  # the reader is gone
                await self._to_library.send(SessionMessage(await self._answered(request)))
        finally:
            self._under_way.pop(request.id, None)

    async def _answered(self, request: "JSONRPCRequest") -> "JSONRPCResponse | JSONRPCError":
        if self._line is None:
            answer, was_refused = await self._alone(request)
            if not was_refused or self._older is None or not await self._connect(self._older):
                return answer
        assert self._line
        if request.method == DISCOVER:  # a connection begins with a handshake, and then both sides may ask
            return _refused(request.id, "a connection needs a handshake")
        return await self._line.ask(request)

    async def _connect(self, older: RemoteClient) -> bool:
        """Open the connection; false if the client does not know connections either."""
        async with self._opening:
            if self._line is None:
                with contextlib.suppress(Error):
                    opened = await older.connect_mcp(s.ConnectMcpRequest(server_id=self._server_id))
                    self._line = OlderConnection(older, opened.connection_id, self._to_library)
        return self._line is not None

    async def _alone(self, request: "JSONRPCRequest") -> "tuple[JSONRPCResponse | JSONRPCError, bool]":
        """The answer to a request without a connection, and whether the client may not know such requests."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCNotification

        asked = s.MessageMcpRequest(
            server_id=self._server_id, request_id=new_id("mcp"), method=request.method, params=request.params
        )

        def hear(said: s.MessageMcpNotification) -> None:
            note = JSONRPCNotification(jsonrpc="2.0", method=said.method, params=dict(said.params or {}))
            with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._to_library.send_nowait(SessionMessage(note))  # progress is dropped if the reader is too slow

        self._carrier.mcp_hearers[self._server_id, asked.request_id] = hear
        try:
            return await _answer(self._carrier, asked, request.id)
        finally:
            del self._carrier.mcp_hearers[self._server_id, asked.request_id]


def _refused(id: int | str, why: str) -> "JSONRPCError":
    """The library's error for an unknown method."""
    from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError

    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=METHOD_NOT_FOUND, message=why))


async def _answer(
    carrier: McpCarrier, asked: s.MessageMcpRequest, id: int | str
) -> "tuple[JSONRPCResponse | JSONRPCError, bool]":
    import mcp_types as types

    was_refused = False
    try:
        carried = msgspec.convert(await carrier.message_mcp(asked), s.MessageMcpResponse)
        if isinstance(carried.result, dict):
            return types.JSONRPCResponse(jsonrpc="2.0", id=id, result=carried.result), False
        if isinstance(carried.error, s.McpError):
            error = types.ErrorData(code=carried.error.code, message=carried.error.message)
        else:
            error = types.ErrorData(code=NO_ANSWER, message="the answer is no object")
    except RpcError as exc:
        error, was_refused = types.ErrorData(code=exc.code, message=exc.message), exc.code in REFUSED
    except (Error, msgspec.ValidationError) as exc:
        error = types.ErrorData(code=NO_ANSWER, message=str(exc))
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error), was_refused
