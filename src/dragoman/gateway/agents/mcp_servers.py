"""MCP servers in clients, as the agents behind a gateway reach them: `mcp/…`, in both generations of the draft.

A server is a session's, and is known there by its name: a client that comes back may have it under another id.  An
agent's process serves several clients, so it is told ids that no two servers share; a client hears its own.
In the first generation an agent opens connections to a server, over which either side speaks; in the second it
names the server in each request, and hears of the request while that is open.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw, Struct

from ...connection.connection import Connection
from ...errors import InternalError, McpBackendFailed, McpLimitExceeded, McpServerUnavailable, RpcError
from ...events import Method, Reply
from ...foundation.owning import Work
from ...proxy.relaying import relayed
from ..log.records import changed, members, optional, raw, text
from ..log.session_facts import SessionFacts

if TYPE_CHECKING:
    from .upstream import Upstream

MESSAGE, CONNECT, DISCONNECT = "mcp/message", "mcp/connect", "mcp/disconnect"
MAX_LINES = 1000  # connections between an agent's process and servers in clients
ID_LENGTH = 24


class Line(Struct, eq=False):
    """A connection of the first generation: what the agent calls it, and what the client."""

    agent: "Upstream"
    of_agent: str
    lines: "dict[str, Line]"  # of the agent's process, by what it calls them
    client: "ClientServers"
    of_client: str
    session: "Served"


class _Entry(Struct, rename="camel"):
    name: str = ""
    type: str | None = None
    server_id: str = ""


def _in_client(servers: Sequence[Raw]) -> "list[tuple[int, str, str]]":
    """Where in a list of MCP servers those in the client are, by what name, and what the client calls them."""
    found, known = [], Counter[str]()
    for position, server in enumerate(servers):
        try:
            entry = msgspec.json.decode(server, type=_Entry)
        except msgspec.DecodeError:
            continue  # no server that a client has; the agent says what it is
        if entry.type == "acp":
            known[entry.name] += 1
            name = entry.name if known[entry.name] == 1 else f"{entry.name}\n{known[entry.name]}"
            found.append((position, name, entry.server_id))
    return found


def _listed(found: dict[str, Raw]) -> list[Raw]:
    try:
        return msgspec.json.decode(found.get("mcpServers", b"[]"), type=list[Raw])
    except msgspec.DecodeError:
        return []


class ServerProvider(Protocol):
    """A client that is connected, with its servers."""

    connection: Connection
    servers: "ClientServers"


class SessionServers:
    """The servers of one session, and who has them."""

    def __init__(self, session: str, facts: SessionFacts) -> None:
        self._session, self._facts = session, facts
        self._offers: dict[ServerProvider, dict[str, str]] = {}

    def offer(self, client: ServerProvider, found: dict[str, Raw]) -> None:
        """A client opens the session, with these servers of its own among others."""
        if own := {name: id for _, name, id in _in_client(_listed(found))}:
            self._offers[client] = own

    def withdraw(self, client: ServerProvider) -> None:
        """A client is no longer at the session."""
        self._offers.pop(client, None)

    def told(self) -> dict[str, Raw]:
        """The servers that the session was opened with, in the form for the agent."""
        opening = members(self._facts.opening)
        servers = _listed(opening)
        if not (own := _in_client(servers)):
            return opening
        for position, name, _ in own:
            servers[position] = changed(members(servers[position]), serverId=self._alias(name))
        return {**opening, "mcpServers": raw(servers)}

    def aliases(self) -> list[str]:
        """What the agent knows the servers by."""
        return [self._alias(name) for _, name, _ in _in_client(_listed(members(self._facts.opening)))]

    def find(self, alias: str, lesser: Collection[ServerProvider]) -> tuple[ServerProvider, str] | None:
        """The last client that came with a server, other than the `lesser`; and what it calls the server."""
        for client, own in reversed(self._offers.items()):
            if client in lesser or client.connection.closed:
                continue
            for name, id in own.items():
                if self._alias(name) == alias:
                    return client, id
        return None

    def _alias(self, name: str) -> str:
        """An id that is the same whenever the agent is started, and nobody else's."""
        return "mcp_" + hashlib.sha256(f"{self._session}\n{name}".encode()).hexdigest()[:ID_LENGTH]


class ClientServers:
    """The servers in one client: passes on to it, and from it, what concerns them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._calls: dict[
            tuple[str, str], tuple[Upstream, str, Raw]
        ] = {}  # by what the client calls server and request
        self._lines: dict[str, Line] = {}  # by what the client calls them

    # From an agent

    async def message(self, agent: "Upstream", found: dict[str, Raw], server: str) -> Raw:
        """A request to a server, during which that may say more."""
        alias, request = text(found, "serverId") or "", found.get("requestId", Raw(b"null"))
        shown = _free(text(found, "requestId") or "", lambda id: (server, id) in self._calls)
        named = {"serverId": raw(server)} | ({"requestId": raw(shown)} if "requestId" in found else {})
        self._calls[server, shown] = agent, alias, request
        try:
            return await self.relay(agent, MESSAGE, changed({**found, **named}))
        finally:
            del self._calls[server, shown]

    async def connect(
        self, agent: "Upstream", lines: dict[str, Line], session: "Served", found: dict[str, Raw], server: str
    ) -> Raw:
        """Open a connection to a server of a session's."""
        answer = members(await self.relay(agent, CONNECT, changed({**found, _key(found): raw(server)})))
        if (id := text(answer, "connectionId")) is None:
            raise InternalError("the client answered mcp/connect without a connectionId")
        line = Line(agent, _free(id, lines.__contains__), lines, self, id, session)
        lines[line.of_agent] = self._lines[id] = line
        return changed(answer, connectionId=line.of_agent)

    async def relay(self, agent: "Upstream", name: str, params: Raw) -> Raw:
        """Ask the client, as whose request it is to cancel."""
        try:
            answer: Raw = await relayed(agent.connection, self.connection, Method(name, Raw, Raw), params)
        except RpcError:
            if self.connection.closed:
                raise McpBackendFailed("the client that has this MCP server is gone") from None
            raise
        return answer

    def end(self, line: Line, *, is_told: bool = True) -> None:
        """A connection is no more; the client is told so, unless it knows."""
        line.lines.pop(line.of_agent, None)
        if self._lines.get(line.of_client) is line:
            del self._lines[line.of_client]
        if is_told and not self.connection.closed:
            over = raw({"connectionId": line.of_client})
            self.connection.submit(Method(DISCONNECT, Raw, Raw), over, _ignore)

    # From the client

    def line(self, found: dict[str, Raw]) -> Line | None:
        """The connection that a message of the client's is for."""
        return self._lines.get(text(found, "connectionId") or "")

    def tell(self, params: Raw) -> None:
        """Pass on what a server says by itself; what nobody waits for any more is for nobody."""
        found = optional({"params": params}, "params")
        if line := self.line(found):
            line.agent.note(MESSAGE, changed(found, connectionId=line.of_agent))
            return
        call = self._calls.get((text(found, "serverId") or "", text(found, "requestId") or ""))
        if call:
            agent, alias, request = call
            agent.note(MESSAGE, changed(found, serverId=alias, requestId=request))

    def leave(self) -> None:
        """The client is gone, and its connections with it."""
        for line in list(self._lines.values()):
            self.end(line, is_told=False)


Ask = Callable[[ClientServers, str], Work[Raw]]


class AskedClients(Protocol):
    """The clients of a session, as its agent asks them."""

    async def lent(self, method: str, params: dict[str, Raw]) -> Raw:
        """Ask the client that owns the workspace for its files and terminals."""

    async def requested(self, method: str, params: dict[str, Raw]) -> Raw:
        """Ask a client what only the agent and it know."""

    async def served(self, alias: str, ask: Ask) -> Raw:
        """Have a client asked that has a server, once there is one."""

    async def in_turn(self, client: Connection, asking: Work[Raw]) -> Raw:
        """Ask a client once it has been told what was told before, and asked what was asked before."""

    def tell_client(self, client: Connection, name: str, params: Raw) -> None:
        """Tell a client something once it has been told what was told before."""


class Served(Protocol):
    """A session, as its agent's servers need it."""

    servers: SessionServers

    @property
    def clients(self) -> AskedClients: ...


class AgentServers:
    """The servers in clients that one agent's process knows: all that it asks them passes here."""

    def __init__(self, agent: "Upstream") -> None:
        self._agent = agent
        self._sessions: dict[str, Served] = {}  # by what the agent calls the server
        self._lines: dict[str, Line] = {}  # by what the agent calls them

    def add(self, session: Served) -> None:
        """The agent is told of a session with these servers."""
        self._sessions |= dict.fromkeys(session.servers.aliases(), session)

    def forget(self, session: Served) -> None:
        """The agent no longer has a session; neither does it have connections to its servers."""
        for alias in [alias for alias, whose in self._sessions.items() if whose is session]:
            del self._sessions[alias]
        for line in list(self._lines.values()):
            if line.session is session:
                line.client.end(line)

    def over(self) -> None:
        """The agent is gone."""
        for session in list(self._sessions.values()):
            self.forget(session)

    def answers(self) -> dict[str, Method]:
        """What is answered to the agent."""
        known = {MESSAGE: self._message, CONNECT: self._connect, DISCONNECT: self._disconnect}
        return {name: Method(name, Raw, Raw, handler=handler) for name, handler in known.items()}

    async def _message(self, params: Raw) -> Raw:
        found = members(params)
        if "connectionId" in found:
            return await self._over_line(MESSAGE, found)
        alias, session = self._session(found)
        return await session.clients.served(alias, lambda client, id: client.message(self._agent, found, id))

    async def _connect(self, params: Raw) -> Raw:
        found = members(params)
        if len(self._lines) >= MAX_LINES:
            raise McpLimitExceeded(f"there are {MAX_LINES} connections already")
        alias, session = self._session(found)

        async def connect(client: ClientServers, id: str) -> Raw:
            return await client.connect(self._agent, self._lines, session, found, id)

        return await session.clients.served(alias, connect)

    async def _disconnect(self, params: Raw) -> Raw:
        found = members(params)
        line = self._line(found)
        try:
            return await self._over_line(DISCONNECT, found)
        finally:
            line.client.end(line, is_told=False)

    def _session(self, found: dict[str, Raw]) -> tuple[str, Served]:
        """What the agent calls a server, and whose it is."""
        alias = text(found, _key(found)) or ""
        if (session := self._sessions.get(alias)) is None:
            raise McpServerUnavailable
        return alias, session

    async def _over_line(self, name: str, found: dict[str, Raw]) -> Raw:
        line = self._line(found)
        asking = line.client.relay(self._agent, name, changed(found, connectionId=line.of_client))
        return await line.session.clients.in_turn(line.client.connection, asking)

    def _line(self, found: dict[str, Raw]) -> Line:
        if (line := self._lines.get(text(found, "connectionId") or "")) is None:
            raise McpServerUnavailable
        return line

    def tell(self, params: Raw) -> None:
        """Pass on what the agent tells a server, in its place among the updates."""
        found = optional({"params": params}, "params")
        if line := self._lines.get(text(found, "connectionId") or ""):
            line.session.clients.tell_client(
                line.client.connection, MESSAGE, changed(found, connectionId=line.of_client)
            )


def _key(found: dict[str, Raw]) -> str:
    """Where a message names its server: a draft of the first generation calls it otherwise."""
    return "acpId" if "acpId" in found else "serverId"


def _free(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """An id, or another where it is taken."""
    while is_taken(wanted):
        wanted = secrets.token_hex(12)
    return wanted


def _ignore(reply: Reply) -> None:
    """Nobody waits for this answer."""
