"""The servers that a client offers an agent, answered in both generations of MCP over ACP."""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ... import schema as s
from ...connection.remotes import RemoteAgent
from ...errors import (
    Error,
    InvalidParams,
    McpBackendFailed,
    McpLimitExceeded,
    McpServerUnavailable,
    NotOffered,
    RpcError,
)
from ...events import Method
from ...foundation.owning import finish, own
from ...roles import ClientRole, methods
from ...schema.mcp_connection import AnyMcpRequest
from .lines import ProvidedConnection
from .running import RunningServer, lowlevel

if TYPE_CHECKING:
    from .running import Started

MAX_OPEN = 64  # requests to a server, and connections to all
VERSION = "io.modelcontextprotocol/protocolVersion"  # in the `_meta` of a request that needs no handshake
MESSAGE, NOTE, CONNECT, DISCONNECT = (
    methods(ClientRole)[name] for name in ("message_mcp", "notify_mcp", "connect_mcp", "disconnect_mcp")
)


class ProvidedServers:
    """What `Client.mcp_servers` has, for one connection to an agent."""

    def __init__(self, servers: Sequence[object], agent: RemoteAgent) -> None:
        self._agent = agent
        self._passed_on = [each for each in servers if isinstance(each, s.McpServerHttp | s.McpServerSse)]
        self._entries: dict[str, tuple[str, object]] = {}  # names and sources, by ids that nobody had before
        for source in servers:
            if source not in self._passed_on:
                name = source.name if isinstance(source, s.McpServerStdio) else lowlevel(source).name
                self._entries[secrets.token_urlsafe(16)] = name, source
        self._running: dict[str, RunningServer] = {}
        self._lines: dict[str, ProvidedConnection] = {}
        self._whole: dict[str, str] = {}  # of a server whose agent wants a handshake: its connection
        self._open: dict[str, set[str]] = {}  # requests that are being answered, by server
        self._opening = asyncio.Lock()

    def offered(self, capabilities: s.AgentCapabilities) -> list[s.McpServer]:
        """The servers as a session is opened with them; raises NotOffered if the agent cannot reach one."""
        found: list[s.McpServer] = list(self._passed_on)
        for id, (name, source) in self._entries.items():
            if capabilities.mcp_capabilities.acp:
                found.append(s.McpServerAcp(name=name, server_id=id))
            elif isinstance(source, s.McpServerStdio):
                found.append(source)  # which the agent starts itself
            else:
                raise NotOffered(f"the agent takes no MCP servers over ACP, so it cannot use {name!r}")
        return found

    def answers(self) -> tuple[dict[str, Method], dict[str, Method]]:
        """The requests and notifications that are answered for the servers."""
        from msgspec.structs import replace

        requests = [(MESSAGE, self._message), (CONNECT, self._connect), (DISCONNECT, self._disconnect)]
        return (
            {method.name: replace(method, handler=handler) for method, handler in requests},
            {NOTE.name: replace(NOTE, handler=self._note)},
        )

    async def close(self) -> None:
        """End every connection and every server."""
        await finish(self._close())

    async def _close(self) -> None:
        for line in [*self._lines.values()]:
            await line.close()
        for server in self._running.values():
            await server.close()

    # What an agent asks

    async def _message(self, params: AnyMcpRequest) -> object:
        if isinstance(params, s.ConnectionMcpRequest):
            return await self._line(params.connection_id).ask(params.method, params.params)
        self._entry(params.server_id)
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

        if VERSION not in _meta(params.params):  # of the first generation, whose connections a dialect hides
            return await (await self._handshaken(params.server_id)).ask(params.method, params.params)
        _, near = await self._started(params.server_id)
        token = _meta(params.params).get("progressToken", params.request_id)

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told = {"progressToken": token, "progress": progress, "total": total, "message": message}
            self._agent.mcp_notification(
                s.MessageMcpNotification(
                    server_id=params.server_id,
                    request_id=params.request_id,
                    method="notifications/progress",
                    params={name: value for name, value in told.items() if value is not None},
                )
            )

        try:
            return await near.send_raw_request(params.method, params.params or {}, {"on_progress": progress})
        except MCPError as exc:
            raise RpcError(exc.message, code=exc.code) from exc

    async def _connect(self, params: s.ConnectMcpRequest) -> s.ConnectMcpResponse:
        if len(self._lines) >= MAX_OPEN:
            raise McpLimitExceeded(f"{MAX_OPEN} connections are open")
        server, _ = await self._started(params.server_id)
        id = secrets.token_urlsafe(16)
        self._lines[id] = ProvidedConnection(server, self._agent, id)
        return s.ConnectMcpResponse(connection_id=id)

    async def _disconnect(self, params: s.DisconnectMcpRequest) -> s.DisconnectMcpResponse:
        line = self._line(params.connection_id)
        del self._lines[params.connection_id]
        await line.close()
        return s.DisconnectMcpResponse()

    def _note(self, params: s.ConnectionMcpNotification) -> None:
        if line := self._lines.get(params.connection_id):
            own(_told(line, params.method, params.params), "notification to an MCP server")

    # The servers

    async def _handshaken(self, server_id: str) -> ProvidedConnection:
        async with self._opening:
            if server_id not in self._whole:
                connected = await self._connect(s.ConnectMcpRequest(server_id=server_id))
                self._whole[server_id] = connected.connection_id
        return self._line(self._whole[server_id])

    async def _started(self, server_id: str) -> "Started":
        name, source = self._entry(server_id)
        server = self._running.setdefault(server_id, RunningServer(source, name))
        try:
            return await server.started()
        except (Exception, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
                raise
            raise McpBackendFailed(f"the MCP server {name!r} cannot be started: {str(exc)[:300]}") from exc

    def _entry(self, server_id: str) -> tuple[str, object]:
        if (found := self._entries.get(server_id)) is None:
            raise McpServerUnavailable
        return found

    def _line(self, id: str) -> ProvidedConnection:
        if (line := self._lines.get(id)) is None:
            raise McpServerUnavailable
        return line


async def _told(line: ProvidedConnection, method: str, params: Mapping[str, object] | None) -> None:
    with contextlib.suppress(Error):  # it has ended, and nobody waits for an answer
        await line.tell(method, params)


def _meta(params: Mapping[str, object] | None) -> Mapping[str, object]:
    meta = (params or {}).get("_meta")
    return meta if isinstance(meta, Mapping) else {}
