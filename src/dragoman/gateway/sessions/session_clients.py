"""Requests of a session's agent to its clients: files and terminals, MCP servers, extensions.

A client gets a request after all earlier updates and requests of the agent.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from msgspec import Raw

from ...connection.connection import Connection
from ...errors import Error, InternalError, McpServerUnavailable, RpcError
from ...events import Method
from ...foundation.owning import Work
from ...proxy.relaying import relayed
from ..access.limits import Limits
from ..agents.audience import client_teller
from ..agents.mcp_servers import Ask, ServerProvider, SessionServers
from ..log.records import changed
from .agent_link import AgentLink
from .history import History
from .prompt_queue import PromptQueue
from .viewer import Viewer

T = TypeVar("T")

LENDING_TIMEOUT = 30.0
ASKED_AGAIN = ("fs/read_text_file", "terminal/output", "terminal/wait_for_exit")  # of a client that returned


class SessionClients:
    """The clients of one session, for requests of its agent."""

    def __init__(
        self,
        viewers: list[Viewer],
        history: History,
        servers: SessionServers,
        link: AgentLink,
        turns: PromptQueue,
        limits: Limits,
        public: Callable[[dict[str, Raw]], str],
    ) -> None:
        self._viewers, self._history, self._servers, self._link = viewers, history, servers, link
        self._turns, self._limits, self._public = turns, limits, public
        self.came = asyncio.Event()  # set when a client has come
        self._turn = asyncio.Lock()  # the order of requests to a client

    async def requested(self, method: str, params: dict[str, Raw]) -> Raw:
        """Send an agent's request to the client whose prompt runs, or else to the first that may prompt."""
        able = [viewer for viewer in self._viewers if viewer.may_edit and not viewer.client.connection.closed]
        if not able or self._link.upstream is None:
            raise InternalError("no client is connected to this session", {"kind": "no_client"})
        viewer = next((viewer for viewer in able if self._turns.is_of(viewer.client)), able[0])
        asked = changed(params, sessionId=self._public(params))
        source, client = self._link.upstream.connection, viewer.client.connection
        return await self._in_turn(viewer, relayed(source, client, Method(method, Raw, Raw), asked))

    async def _in_turn(self, viewer: Viewer, asking: Work[Raw]) -> Raw:
        """Send a client a request after all earlier updates and requests."""
        try:
            async with self._turn:
                await self.in_order(viewer)
                answer = asyncio.ensure_future(asking)
        except BaseException:
            asking.close()
            raise
        return await answer

    async def in_order(self, viewer: Viewer) -> None:
        """Wait until a client has got the agent's earlier updates."""
        number = self._history.last
        await self._history.settled(number)
        await viewer.reached(number)

    async def served(self, alias: str, ask: Ask) -> Raw:
        """Send a request to the client that has an MCP server; wait a little while it is away."""

        def find() -> tuple[ServerProvider, str] | None:
            lesser = {viewer.client for viewer in self._viewers if viewer.role != "admin"}
            return self._servers.find(alias, lesser)

        client, id = await self._present(find, McpServerUnavailable())
        return await self.in_turn(client.connection, ask(client.servers, id))

    async def in_turn(self, client: Connection, asking: Work[Raw]) -> Raw:
        viewer = self._viewer_of(client)
        return await (self._in_turn(viewer, asking) if viewer else asking)

    def tell_client(self, client: Connection, name: str, params: Raw) -> None:
        if viewer := self._viewer_of(client):
            viewer.pass_on(self._history.last, name, params)
        else:
            client_teller(client)(name, params)

    def _viewer_of(self, client: Connection) -> Viewer | None:
        """The viewer of a client; None while it is still opening the session."""
        return next((viewer for viewer in self._viewers if viewer.client.connection is client), None)

    async def lent(self, method: str, params: dict[str, Raw]) -> Raw:
        """Send a request to the client that owns the workspace; wait a little while it is away."""
        timeout = None if method.endswith("wait_for_exit") else LENDING_TIMEOUT
        asked = Method(method, Raw, Raw, timeout=timeout)
        while True:
            viewer = await self._owner(method)
            owner = viewer.client
            asking = owner.connection.call(asked, changed(params, sessionId=self._public(params)))
            try:
                return await self._in_turn(viewer, asking)
            except RpcError as exc:
                raise RpcError.of(exc.code, exc.message, exc.data) from None
            except Error as exc:
                if owner.connection.closed and method in ASKED_AGAIN:
                    continue
                raise InternalError(f"the client that owns the workspace did not answer: {exc}") from None

    async def _owner(self, method: str) -> Viewer:
        def find() -> Viewer | None:
            able = (viewer for viewer in self._viewers if viewer.role == "admin" and viewer.client.lends(method))
            return next((viewer for viewer in able if not viewer.client.connection.closed), None)

        why = "no client that owns this session's workspace is connected"
        return await self._present(find, InternalError(why, {"kind": "no_workspace_owner"}))

    async def _present(self, find: Callable[[], T | None], missing: RpcError) -> T:
        """A value that a present client gives, or one that comes within a while."""
        try:
            async with asyncio.timeout(self._limits.owner_seconds):
                while (found := find()) is None:
                    self.came.clear()
                    await self.came.wait()
                return found
        except TimeoutError:
            raise missing from None
