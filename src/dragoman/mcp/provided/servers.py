"""The servers that a client offers an agent, answered in both generations of MCP over ACP."""

import asyncio
import secrets
from collections.abc import Sequence

from ... import schema as s
from ...connection.remotes import RemoteAgent
from ...errors import McpLimitExceeded, McpServerUnavailable, NotOffered
from ...events import Method
from ...roles import ClientRole, methods
from ...schema.mcp_connection import AnyMcpRequest
from .answering import AnsweringServers, meta_of
from .lines import ProvidedConnection
from .running import name_of

MAX_LINES = 64  # connections to all servers
INITIALIZE = "initialize"
VERSION = "io.modelcontextprotocol/protocolVersion"  # in the `_meta` of a request that needs no handshake
MESSAGE, NOTE, CONNECT, DISCONNECT = (
    methods(ClientRole)[name] for name in ("message_mcp", "notify_mcp", "connect_mcp", "disconnect_mcp")
)


class ProvidedServers(AnsweringServers):
    """The servers in `Client.mcp_servers`, for one connection to an agent."""

    def __init__(self, servers: Sequence[object], agent: RemoteAgent) -> None:
        self._agent = agent
        self._passed_on = [each for each in servers if isinstance(each, s.McpServerHttp | s.McpServerSse)]
        own = [source for source in servers if source not in self._passed_on]
        super().__init__({secrets.token_urlsafe(16): (name_of(source), source) for source in own})  # ids are new
        self._lines: dict[str, ProvidedConnection] = {}
        self._whole: dict[str, ProvidedConnection] = {}  # by server, for an agent that names no connections
        self._introductions: dict[str, s.JsonObject] = {}  # of such an agent
        self._opening = asyncio.Lock()

    def offered(self, capabilities: s.AgentCapabilities) -> list[s.McpServer]:
        """The servers in the form for opening a session; raises NotOffered if the agent cannot reach one."""
        found: list[s.McpServer] = list(self._passed_on)
        for id, (name, source) in self._sources.items():
            if capabilities.mcp_capabilities.acp:
                found.append(s.McpServerAcp(name=name, server_id=id))
            elif isinstance(source, s.McpServerStdio):
                found.append(source)  # the agent starts it itself
            else:
                raise NotOffered(f"the agent takes no MCP servers over ACP, so it cannot use {name!r}")
        return found

    def answers(self) -> tuple[dict[str, Method], dict[str, Method]]:
        """The handlers of the requests and notifications for the servers."""
        from msgspec.structs import replace

        requests = [(MESSAGE, self._message), (CONNECT, self._connect), (DISCONNECT, self._disconnect)]
        return (
            {method.name: replace(method, handler=handler) for method, handler in requests},
            {NOTE.name: replace(NOTE, handler=self._note)},
        )

    async def _close(self) -> None:
        for line in (*self._lines.values(), *self._whole.values()):
            await line.close()
        await super()._close()

    def tell(self, params: s.MessageMcpRequest, method: str, told: s.JsonObject) -> None:
        """Tell the agent something about a request that is open."""
        self._agent.mcp_notification(
            s.MessageMcpNotification(
                server_id=params.server_id, request_id=params.request_id, method=method, params=told
            )
        )

    # The agent's requests

    async def _message(self, params: AnyMcpRequest) -> object:
        if isinstance(params, s.ConnectionMcpRequest):
            return await self._line(params.connection_id).ask(params.method, params.params)
        return await self.answer(params)

    async def _answered(self, params: s.MessageMcpRequest) -> object:
        if VERSION in meta_of(params):
            return await super()._answered(params)
        # Of the first generation, whose connections a dialect hides.
        return await (await self._handshaken(params)).ask(params.method, params.params)

    async def _connect(self, params: s.ConnectMcpRequest) -> s.ConnectMcpResponse:
        for id, line in [*self._lines.items()]:
            if line.has_ended:
                del self._lines[id]
        if len(self._lines) >= MAX_LINES:
            raise McpLimitExceeded(f"{MAX_LINES} connections are open")
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
            line.note(params.method, params.params)

    async def _handshaken(self, params: s.MessageMcpRequest) -> ProvidedConnection:
        """The one connection to a server; to one that was started again the agent is introduced as before."""
        id = params.server_id
        async with self._opening:
            server, _ = await self._started(id)
            line = self._whole.get(id)
            if line and (line.has_ended or line.server is not server):
                await line.close()
                line = None
            if line is None:
                line = self._whole[id] = ProvidedConnection(server, self._agent, "")
                if params.method != INITIALIZE and id in self._introductions:
                    await line.ask(INITIALIZE, self._introductions[id])
                    line.note("notifications/initialized", None)
            if params.method == INITIALIZE:
                self._introductions[id] = params.params or {}
        return line

    def _line(self, id: str) -> ProvidedConnection:
        if (line := self._lines.get(id)) is None:
            raise McpServerUnavailable
        return line
