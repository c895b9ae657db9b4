"""MCP servers in clients, for the agents behind a gateway: `mcp/…`, in both generations of the draft.

A server belongs to a session and is known there by its name, because a client that reconnects may use another id.
An agent's process serves several clients, so it gets ids that no two servers share; a client gets its own ids.  In
the first generation, an agent opens connections to a server, over which both sides send.  In the second, it names
the server in each request, and gets messages about the request while that is open.
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
    """A connection of the first generation, with the agent's id and the client's id."""

    agent: "Upstream"
    of_agent: str
    lines: "dict[str, Line]"  # connections of the agent's process, by its ids
    client: "ClientServers"
    of_client: str
    session: "Served"


class _Entry(Struct, rename="camel"):
    name: str = ""
    type: str | None = None
    server_id: str = ""


def _in_client(servers: Sequence[Raw]) -> "list[tuple[int, str, str]]":
    """The positions, names and clients' ids of the servers in the client, in a list of MCP servers."""
    found, known = [], Counter[str]()
    for position, server in enumerate(servers):
        try:
            entry = msgspec.json.decode(server, type=_Entry)
        except msgspec.DecodeError:
            continue  # not a server in a client; the agent reports its fault
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
    """A connected client with its servers."""

    connection: Connection
    servers: "ClientServers"


class SessionServers:
    """The servers of one session, and the clients that have them."""

    def __init__(self, session: str, facts: SessionFacts) -> None:
        self._session, self._facts = session, facts
        self._offers: dict[ServerProvider, dict[str, str]] = {}

    def offer(self, client: ServerProvider, found: dict[str, Raw]) -> None:
        """Note that a client opens the session with these servers."""
        if own := {name: id for _, name, id in _in_client(_listed(found))}:
            self._offers[client] = own

    def withdraw(self, client: ServerProvider) -> None:
        """Note that a client has left the session."""
        self._offers.pop(client, None)

    def told(self) -> dict[str, Raw]:
        """The servers of the session, in the form for the agent."""
        opening = members(self._facts.opening)
        servers = _listed(opening)
        if not (own := _in_client(servers)):
            return opening
        for position, name, _ in own:
            servers[position] = changed(members(servers[position]), serverId=self._alias(name))
        return {**opening, "mcpServers": raw(servers)}

    def aliases(self) -> list[str]:
        """The agent's ids of the servers."""
        return [self._alias(name) for _, name, _ in _in_client(_listed(members(self._facts.opening)))]

    def find(self, alias: str, lesser: Collection[ServerProvider]) -> tuple[ServerProvider, str] | None:
        """The latest client with a server, preferably not one of the `lesser`, and its id of the server."""
        for client, own in reversed(self._offers.items()):
            if client in lesser or client.connection.closed:
                continue
            for name, id in own.items():
                if self._alias(name) == alias:
                    return client, id
        return None

    def _alias(self, name: str) -> str:
        """A unique id that stays the same whenever the agent is started."""
        return "mcp_" + hashlib.sha256(f"{self._session}\n{name}".encode()).hexdigest()[:ID_LENGTH]


class ClientServers:
    """The servers in one client: passes messages about them to it and from it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._calls: dict[
            tuple[str, str], tuple[Upstream, str, Raw]
        ] = {}  # by the client's ids of server and request
        self._lines: dict[str, Line] = {}  # by the client's ids

    # From an agent

    async def message(self, agent: "Upstream", found: dict[str, Raw], server: str) -> Raw:
        """Send a request to a server, which may send messages about it until the answer."""
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
        """Open a connection to a server of a session."""
        answer = members(await self.relay(agent, CONNECT, changed({**found, _key(found): raw(server)})))
        if (id := text(answer, "connectionId")) is None:
            raise InternalError("the client answered mcp/connect without a connectionId")
        line = Line(agent, _free(id, lines.__contains__), lines, self, id, session)
        lines[line.of_agent] = self._lines[id] = line
        return changed(answer, connectionId=line.of_agent)

    async def relay(self, agent: "Upstream", name: str, params: Raw) -> Raw:
        """Send the client a request that can be cancelled."""
        try:
            answer: Raw = await relayed(agent.connection, self.connection, Method(name, Raw, Raw), params)
        except RpcError:
            if self.connection.closed:
                raise McpBackendFailed("the client that has this MCP server is gone") from None
            raise
        return answer

    def end(self, line: Line, *, is_told: bool = True) -> None:
        """Remove a connection, and tell the client unless it knows."""
        line.lines.pop(line.of_agent, None)
        if self._lines.get(line.of_client) is line:
            del self._lines[line.of_client]
        if is_told and not self.connection.closed:
            over = raw({"connectionId": line.of_client})
            self.connection.submit(Method(DISCONNECT, Raw, Raw), over, _ignore)

    # From the client

    def line(self, found: dict[str, Raw]) -> Line | None:
        """The connection that a message of the client names."""
        return self._lines.get(text(found, "connectionId") or "")

    def tell(self, params: Raw) -> None:
        """Pass on a message of a server; messages about ended requests are dropped."""
        found = optional({"params": params}, "params")
        if line := self.line(found):
            line.agent.note(MESSAGE, changed(found, connectionId=line.of_agent))
            return
        call = self._calls.get((text(found, "serverId") or "", text(found, "requestId") or ""))
        if call:
            agent, alias, request = call
            agent.note(MESSAGE, changed(found, serverId=alias, requestId=request))

    def leave(self) -> None:
        """End the connections of a client that has disconnected."""
        for line in list(self._lines.values()):
            self.end(line, is_told=False)


Ask = Callable[[ClientServers, str], Work[Raw]]


class AskedClients(Protocol):
    """The clients of a session, for requests of its agent."""

    async def lent(self, method: str, params: dict[str, Raw]) -> Raw:
        """Ask the client that owns the workspace for its files and terminals."""

    async def requested(self, method: str, params: dict[str, Raw]) -> Raw:
        """Pass on a request that only the agent and a client understand."""

    async def served(self, alias: str, ask: Ask) -> Raw:
        """Send a request to a client that has a server, once one is connected."""

    async def in_turn(self, client: Connection, asking: Work[Raw]) -> Raw:
        """Send a client a request after all earlier updates and requests."""

    def tell_client(self, client: Connection, name: str, params: Raw) -> None:
        """Send a client a notification after all earlier updates."""


class Served(Protocol):
    """The interface of a session for its agent's servers."""

    servers: SessionServers

    @property
    def clients(self) -> AskedClients: ...


class AgentServers:
    """The servers in clients for one agent's process: all its requests to them pass here."""

    def __init__(self, agent: "Upstream") -> None:
        self._agent = agent
        self._sessions: dict[str, Served] = {}  # by the agent's id of the server
        self._lines: dict[str, Line] = {}  # by the agent's ids

    def add(self, session: Served) -> None:
        """Note that the agent opens a session with these servers."""
        self._sessions |= dict.fromkeys(session.servers.aliases(), session)

    def forget(self, session: Served) -> None:
        """Remove a session that the agent has closed, and the connections to its servers."""
        for alias in [alias for alias, whose in self._sessions.items() if whose is session]:
            del self._sessions[alias]
        for line in list(self._lines.values()):
            if line.session is session:
                line.client.end(line)

    def over(self) -> None:
        """End everything after the agent has ended."""
        for session in list(self._sessions.values()):
            self.forget(session)

    def answers(self) -> dict[str, Method]:
        """The handlers of the agent's requests."""
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
        """The session and the name of a server, by the agent's id."""
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
        """Pass a notification of the agent to a server, in its order among the updates."""
        found = optional({"params": params}, "params")
        if line := self._lines.get(text(found, "connectionId") or ""):
            line.session.clients.tell_client(
                line.client.connection, MESSAGE, changed(found, connectionId=line.of_client)
            )


def _key(found: dict[str, Raw]) -> str:
    """The server's id in a message; a draft of the first generation uses another member."""
    return "acpId" if "acpId" in found else "serverId"


def _free(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """An id, or another one if it is taken."""
    while is_taken(wanted):
        wanted = secrets.token_hex(12)
    return wanted


def _ignore(reply: Reply) -> None:
    """Ignore an answer that nobody waits for."""
