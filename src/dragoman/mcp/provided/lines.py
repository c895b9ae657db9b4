"""Connections of the first generation of MCP over ACP: each is a whole MCP session with requests both ways."""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import schema as s
from ...connection.remotes import RemoteAgent
from ...errors import Error, McpBackendFailed, RpcError
from ...foundation.owning import own

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.shared._context_streams import ContextReceiveStream
    from mcp.shared.message import SessionMessage

    from .running import LibraryServer

MAX_QUESTIONS = 64  # unanswered requests of one server
NO_ANSWER = -32603
MAX_NOTES = 256  # notifications of an agent that the server has not taken yet


class ProvidedConnection:
    """One connection to a server of ours: the agent's messages in, the server's messages out."""

    def __init__(self, server: "LibraryServer", agent: RemoteAgent, id: str) -> None:
        self.server = server
        self._agent, self._id = agent, id
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._questions: set[asyncio.Task[None]] = set()
        self._streams: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._owner = own(self._own(), "MCP connection of an agent")

    @property
    def has_ended(self) -> bool:
        return self._owner.done()

    def note(self, method: str, params: Mapping[str, object] | None) -> None:
        """Pass on a notification of the agent soon; it is dropped if too many wait."""
        if len(self._notes) < MAX_NOTES:
            task = own(self._tell(method, params), "notification to an MCP server")
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    async def ask(self, method: str, params: Mapping[str, object] | None) -> object:
        """The server's answer to a request; raises RpcError with the server's own error."""
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        id = next(self._ids)
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        request = types.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=dict(params or {}))
        try:
            await self._send(SessionMessage(request))
            return await answer
        except asyncio.CancelledError:
            await self._tell("notifications/cancelled", {"requestId": id})
            raise
        finally:
            del self._waiting[id]

    async def _tell(self, method: str, params: Mapping[str, object] | None) -> None:
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        note = types.JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params or {}))
        with contextlib.suppress(RpcError):  # the connection has ended, and nobody waits for an answer
            await self._send(SessionMessage(note))

    async def close(self) -> None:
        """End it."""
        self._closing.set()
        await asyncio.wait([self._owner])

    async def _send(self, message: "SessionMessage") -> None:
        import anyio

        try:
            await (await asyncio.shield(self._streams)).send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise McpBackendFailed("the connection has ended") from None

    async def _own(self) -> None:
        import anyio
        from mcp.shared.memory import create_client_server_memory_streams

        try:
            async with (
                create_client_server_memory_streams() as ((reading, writing), (server_reading, server_writing)),
                anyio.create_task_group() as group,
            ):
                options = self.server.create_initialization_options()
                group.start_soon(self.server.run, server_reading, server_writing, options)
                group.start_soon(self._read, reading)
                self._streams.set_result(writing)
                await self._closing.wait()
                group.cancel_scope.cancel()
        finally:
            for task in (*self._questions, *self._notes):
                task.cancel()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(McpBackendFailed("the connection has ended"))
            self._streams.cancel()

    async def _read(self, reading: "ContextReceiveStream[SessionMessage | Exception]") -> None:
        async for item in reading:
            message: Any = getattr(item, "message", None)
            id, method = getattr(message, "id", None), getattr(message, "method", None)
            if method is None and isinstance(id, int) and (answer := self._waiting.get(id)) and not answer.done():
                error = getattr(message, "error", None)
                if error is None:
                    answer.set_result(message.result)
                else:
                    answer.set_exception(RpcError(error.message, error.data, code=error.code))
            elif method is not None and id is not None:
                if len(self._questions) >= MAX_QUESTIONS:
                    await self._refuse(id, f"{MAX_QUESTIONS} questions are open")
                    continue
                task = own(self._question(message), "question of an MCP server")
                self._questions.add(task)
                task.add_done_callback(self._questions.discard)
            elif method is not None:
                note = s.ConnectionMcpNotification(connection_id=self._id, method=method, params=message.params)
                with contextlib.suppress(Error):  # the agent is gone, or does not read
                    self._agent.mcp_notification(note)

    async def _question(self, message: "types.JSONRPCRequest") -> None:
        """Pass a server's request on to the agent."""
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        asked = s.ConnectionMcpRequest(connection_id=self._id, method=message.method, params=message.params)
        try:
            result = await self._agent.mcp_request(asked)
        except Error as exc:
            code = exc.code if isinstance(exc, RpcError) else NO_ANSWER
            await self._refuse(message.id, str(exc), code)
            return
        if not isinstance(result, dict):
            await self._refuse(message.id, "the agent's answer is no object")
            return
        with contextlib.suppress(RpcError):
            await self._send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)))

    async def _refuse(self, id: int | str, why: str, code: int = NO_ANSWER) -> None:
        """Answer a question of the server with an error."""
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        error = types.ErrorData(code=code, message=why)
        with contextlib.suppress(RpcError):
            await self._send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error)))
