"""MCP through ACP: a server of the client's own, spoken to with `mcp/message`."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from ... import schema as s
from ...agent.turn import new_id
from ...connection.remotes import RemoteClient
from ...errors import Error, RpcError
from .answers import Streams

if TYPE_CHECKING:
    from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

WAITING = 64  # messages either way before their sender has to wait
NO_ANSWER = -32603


@contextlib.asynccontextmanager
async def relayed(client: RemoteClient, server_id: str) -> AsyncIterator[Streams]:
    """The two streams the library speaks through; requests become requests of ours, and their ends as well."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCNotification

    to_library, receiving = anyio.create_memory_object_stream[Any](WAITING)
    sending, from_library = anyio.create_memory_object_stream[Any](WAITING)
    under_way: dict[int | str, anyio.CancelScope] = {}

    async def exchange(request: "JSONRPCRequest", scope: anyio.CancelScope) -> None:
        asked = s.MessageMcpRequest(
            server_id=server_id, request_id=new_id("mcp"), method=request.method, params=request.params
        )

        def hear(said: s.MessageMcpNotification) -> None:
            note = JSONRPCNotification(jsonrpc="2.0", method=said.method, params=dict(said.params or {}))
            with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                to_library.send_nowait(SessionMessage(note))  # progress that nobody keeps up with is left out

        client.mcp_hearers[server_id, asked.request_id] = hear
        try:
            with scope, contextlib.suppress(anyio.BrokenResourceError):  # nobody listens any more
                await to_library.send(SessionMessage(await _answer(client, asked, request.id)))
        finally:
            del client.mcp_hearers[server_id, asked.request_id]
            under_way.pop(request.id, None)

    async def relay() -> None:
        async for item in from_library:
            message = item.message
            if getattr(message, "id", None) is not None:
                scope = under_way[message.id] = anyio.CancelScope()
                group.start_soon(exchange, message, scope)
            elif message.method == "notifications/cancelled":  # the only one that means something this way
                id = (message.params or {}).get("requestId")
                if id in under_way:
                    under_way.pop(id).cancel()

    async with to_library, receiving, sending, from_library, anyio.create_task_group() as group:
        group.start_soon(relay)
        yield receiving, sending
        group.cancel_scope.cancel()


async def _answer(
    client: RemoteClient, asked: s.MessageMcpRequest, id: int | str
) -> "JSONRPCResponse | JSONRPCError":
    import mcp_types as types

    try:
        carried = msgspec.convert(await client.message_mcp(asked), s.MessageMcpResponse)
        if isinstance(carried.result, dict):
            return types.JSONRPCResponse(jsonrpc="2.0", id=id, result=carried.result)
        if isinstance(carried.error, s.McpError):
            error = types.ErrorData(code=carried.error.code, message=carried.error.message)
        else:
            error = types.ErrorData(code=NO_ANSWER, message="the answer is no object")
    except RpcError as exc:
        error = types.ErrorData(code=exc.code, message=exc.message)
    except (Error, msgspec.ValidationError) as exc:
        error = types.ErrorData(code=NO_ANSWER, message=str(exc))
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
