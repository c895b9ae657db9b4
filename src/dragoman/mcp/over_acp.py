"""MCP through ACP: a server of the client's own, spoken to with `mcp/message`."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from .. import schema as s
from ..agent.turn import new_id
from ..connection.remotes import RemoteClient
from ..errors import Error, RpcError
from .answers import Streams

WAITING = 64  # messages either way before their sender has to wait
NO_ANSWER = -32603


@contextlib.asynccontextmanager
async def relayed(client: RemoteClient, server_id: str) -> AsyncIterator[Streams]:
    """The two streams the library speaks through; requests become requests of ours, and their ends as well."""
    import anyio
    from mcp.shared.message import SessionMessage

    to_library, receiving = anyio.create_memory_object_stream[Any](WAITING)
    sending, from_library = anyio.create_memory_object_stream[Any](WAITING)
    under_way: dict[Any, anyio.CancelScope] = {}

    async def exchange(request: Any, scope: anyio.CancelScope) -> None:
        with scope, contextlib.suppress(anyio.BrokenResourceError):  # nobody listens any more
            await to_library.send(SessionMessage(await _answer(client, server_id, request)))
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


async def _answer(client: RemoteClient, server_id: str, request: Any) -> Any:
    import mcp_types as types

    asked = s.MessageMcpRequest(
        server_id=server_id, request_id=new_id("mcp"), method=request.method, params=request.params
    )
    try:
        carried = msgspec.convert(await client.message_mcp(asked), s.MessageMcpResponse)
        if isinstance(carried.result, dict):
            return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=carried.result)
        if isinstance(carried.error, s.McpError):
            error = types.ErrorData(code=carried.error.code, message=carried.error.message)
        else:
            error = types.ErrorData(code=NO_ANSWER, message="the answer is no object")
    except RpcError as exc:
        error = types.ErrorData(code=exc.code, message=exc.message)
    except (Error, msgspec.ValidationError) as exc:
        error = types.ErrorData(code=NO_ANSWER, message=str(exc))
    return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
