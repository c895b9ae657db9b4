"""Answers single MCP requests (MCP 2026-07-28) by servers of this process or started by it."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ... import schema as s
from ...errors import InvalidParams, McpBackendFailed, McpLimitExceeded, McpServerUnavailable, RpcError
from ...foundation.owning import finish
from .running import RunningServer

if TYPE_CHECKING:
    from .running import Started

MAX_OPEN = 64  # requests to a server
Sources = Mapping[str, tuple[str, object]]  # the name of each server and its source, by id


class AnsweringServers:
    """The servers by id; each starts with the first request to it, and again after it has ended."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._running: dict[str, RunningServer] = {}
        self._open: dict[str, set[str]] = {}  # requests in progress, by server

    async def close(self) -> None:
        """End every server."""
        await finish(self._close())

    async def _close(self) -> None:
        for server in self._running.values():
            await server.close()

    def tell(self, params: s.MessageMcpRequest, method: str, told: s.JsonObject) -> None:
        """Send the other side a message about an open request."""
        raise NotImplementedError

    async def answer(self, params: s.MessageMcpRequest) -> s.MessageMcpResponse:
        """The answer of a server, even if it is an error; raises RpcError for a request that reaches no server."""
        self._source(params.server_id)
        active = self._open.setdefault(params.server_id, set())
        if params.request_id in active:
            raise InvalidParams(f"a request {params.request_id[:80]!r} is open")
        if len(active) >= MAX_OPEN:
            raise McpLimitExceeded(f"{MAX_OPEN} requests are open")
        active.add(params.request_id)
        try:
            return s.MessageMcpResponse(result=await self._answered(params))
        except RpcError as exc:
            if isinstance(exc, McpBackendFailed):
                raise
            data = s.UNSET if exc.data is None else exc.data
            return s.MessageMcpResponse(error=s.McpError(code=exc.code, message=exc.message, data=data))
        finally:
            active.discard(params.request_id)

    async def _answered(self, params: s.MessageMcpRequest) -> object:
        from mcp import MCPError

        _, near = await self._started(params.server_id)
        token = meta_of(params).get("progressToken", params.request_id)

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told = {"progressToken": token, "progress": progress, "total": total, "message": message}
            found = {name: value for name, value in told.items() if value is not None}
            self.tell(params, "notifications/progress", found)

        try:
            return await near.send_raw_request(params.method, params.params or {}, {"on_progress": progress})
        except MCPError as exc:
            raise RpcError(exc.message, code=exc.code) from exc

    async def _started(self, server_id: str) -> "Started":
        name, source = self._source(server_id)
        server = self._running.setdefault(server_id, RunningServer(source, name))
        try:
            return await server.started()
        except (Exception, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
                raise
            raise McpBackendFailed(f"the MCP server {name!r} cannot be started: {str(exc)[:300]}") from exc

    def _source(self, server_id: str) -> tuple[str, object]:
        if (found := self._sources.get(server_id)) is None:
            raise McpServerUnavailable
        return found


def meta_of(params: s.MessageMcpRequest) -> Mapping[str, object]:
    """The `_meta` of a request to a server."""
    meta = (params.params or {}).get("_meta")
    return meta if isinstance(meta, Mapping) else {}
