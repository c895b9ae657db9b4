"""An agent's connection of the first generation of MCP over ACP, with requests both ways."""

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, TypeAlias

from ... import schema as s
from ...connection.remotes import RemoteClient
from ...errors import Error, McpLimitExceeded, McpServerUnavailable, RpcError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

    ToLibrary: TypeAlias = MemoryObjectSendStream[SessionMessage]

MAX_QUESTIONS = 64  # unanswered requests of the server
NO_ANSWER = -32603
LEAVING = 3.0  # seconds that the client has to end a connection


class OlderConnection:
    """Passes messages between the library and one server of a client."""

    def __init__(self, client: RemoteClient, id: str, to_library: "ToLibrary") -> None:
        self._client, self._id, self._to_library = client, id, to_library
        self._numbers = itertools.count(1)
        self._questions: dict[str, asyncio.Future[object]] = {}
        client.mcp_lines[id] = self

    async def close(self) -> None:
        """End it; a client that is gone has ended it already."""
        del self._client.mcp_lines[self._id]
        for question in self._questions.values():
            question.cancel()
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(LEAVING):
                await self._client.disconnect_mcp(s.DisconnectMcpRequest(connection_id=self._id))

    # From the library

    async def ask(self, request: "JSONRPCRequest") -> "JSONRPCResponse | JSONRPCError":
        """The server's answer to a request."""
        import mcp_types as types

        asked = s.ConnectionMcpRequest(connection_id=self._id, method=request.method, params=request.params)
        try:
            result = await self._client.message_mcp(asked)
            if isinstance(result, dict):
                return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
            error = types.ErrorData(code=NO_ANSWER, message="the answer is no object")
        except RpcError as exc:
            error = types.ErrorData(code=exc.code, message=exc.message)
        except Error as exc:
            error = types.ErrorData(code=NO_ANSWER, message=str(exc))
        return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)

    def tell(self, note: "JSONRPCNotification") -> None:
        """Pass a notification on to the server."""
        with contextlib.suppress(Error):
            self._client.notify_mcp(
                s.ConnectionMcpNotification(connection_id=self._id, method=note.method, params=note.params)
            )

    def answered(self, answer: "JSONRPCResponse | JSONRPCError") -> None:
        """Pass on the library's answer to a request of the server."""
        question = self._questions.get(str(answer.id))
        if question is None or question.done():
            return
        if (error := getattr(answer, "error", None)) is None:
            question.set_result(getattr(answer, "result", None))
        else:
            question.set_exception(RpcError(error.message, code=error.code))

    # From the server

    def heard(self, params: s.ConnectionMcpNotification) -> None:
        """Pass a notification on to the library; it is dropped if the library is too slow."""
        import anyio
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        note = types.JSONRPCNotification(jsonrpc="2.0", method=params.method, params=dict(params.params or {}))
        with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._to_library.send_nowait(SessionMessage(note))

    async def asked(self, params: s.ConnectionMcpRequest) -> object:
        """The library's answer to a question of the server; raises RpcError."""
        import anyio
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        if len(self._questions) >= MAX_QUESTIONS:
            raise McpLimitExceeded(f"{MAX_QUESTIONS} requests are open")
        id = f"acp-{next(self._numbers)}"
        question = self._questions[id] = asyncio.get_running_loop().create_future()
        request = types.JSONRPCRequest(jsonrpc="2.0", id=id, method=params.method, params=dict(params.params or {}))
        try:
            await self._to_library.send(SessionMessage(request))
            await asyncio.wait([question])
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            question.cancel()
        finally:
            del self._questions[id]
        if question.cancelled():
            raise McpServerUnavailable
        return question.result()
