"""A connection's own agent process, for requests that concern no session."""

import msgspec
from msgspec import Raw

from ... import __version__
from ... import schema as s
from ...agent.logins import LoginFailures
from ...client.agent_servers import SERVERS
from ...connection.connection import Connection
from ...errors import RpcError
from ...foundation.documents import Document
from ..access.introductions import BARE, Introduction
from ..access.principals import PrincipalName
from ..agents.upstream import Upstream
from ..gateway import Gateway
from ..log.records import changed, members, meta, optional, session_of, text

OURS: Document = {"list": {}, "resume": {}, "close": {}, "delete": {}}
START, CLOSE = "nes/start", "nes/close"
SUGGESTING = (START, "nes/suggest", CLOSE)  # next edit suggestions, which have sessions of their own
OF_SUGGESTIONS = ("nes/", "document/")  # the prefix of their notifications


class OwnAgent:
    """The current process of a connection; call `leave` when the client has disconnected."""

    def __init__(self, gateway: Gateway, agent: str, principal: PrincipalName, connection: Connection) -> None:
        self._gateway, self._agent, self._principal = gateway, agent, principal
        self._connection = connection
        self._introduction: Introduction = BARE
        self._upstream: Upstream | None = None
        self._failures = LoginFailures(connection)
        self._suggesting: dict[str, Upstream] = {}  # sessions of next edit suggestions, and their processes

    @property
    def offers(self) -> s.AgentCapabilities:
        return self._upstream.offers if self._upstream else s.AgentCapabilities()

    async def greet(self, introduction: Introduction) -> Raw:
        """The agent's answer to `initialize`, with the gateway's additional capabilities."""
        self._introduction = introduction
        upstream = await self._gateway.processes.any(self._agent, self._principal, introduction)
        self._listen_to(upstream)
        capabilities = _ours_too(optional(upstream.greeting, "agentCapabilities"))
        return changed(upstream.greeting, agentCapabilities=capabilities)

    async def ask(self, name: str, params: Raw) -> Raw:
        """Pass on a request that concerns no session."""
        return await (await self._process()).call(name, params)

    async def _process(self) -> Upstream:
        upstream = await self._gateway.processes.get(self._agent, self._principal, self._introduction)
        self._listen_to(upstream)
        return upstream

    async def suggest(self, name: str, params: Raw) -> Raw:
        """Pass on a request for next edit suggestions, in order with the notifications about documents."""
        if name == START:
            upstream, id, result = await self._gateway.finish(_started(await self._process(), params), _stopped)
            self._suggesting[id] = upstream
            return result
        found = optional({"params": params}, "params")
        id = text(found, "sessionId") or ""
        upstream = self._suggesting.get(id) or await self._process()
        result = await upstream.call(name, params)
        if name == CLOSE:
            self._suggesting.pop(id, None)
            upstream.suggesting.discard(id)
        return result

    def tell(self, name: str, params: Raw) -> None:
        """Pass on a notification that concerns no session, if the agent runs."""
        session = text(optional({"params": params}, "params"), "sessionId") or ""
        upstream = self._suggesting.get(session, self._upstream)
        if upstream and upstream.is_alive:
            upstream.note(name, params)

    async def log_in(self, params: Raw) -> Raw:
        """Pass on a login; a client that fails too often with credentials is disconnected, as by an agent."""
        try:
            result = await self.ask("authenticate", params)
        except RpcError:
            found = optional({"params": params}, "params")
            self._failures.add(msgspec.json.decode(found.get("_meta", b"null")))
            raise
        self._gateway.logins.note(self._agent, self._principal, result)
        self._failures.forget()
        return result

    async def log_out(self, params: Raw) -> Raw:
        result = await self.ask("logout", params)
        self._gateway.logins.forget(self._agent, self._principal)
        return result

    def leave(self) -> None:
        """Leave the process, and close the sessions of next edit suggestions."""
        self._turn_away()
        for id, upstream in self._suggesting.items():
            upstream.stop_suggesting(id)
        self._suggesting = {}

    def _turn_away(self) -> None:
        if self._upstream:
            self._upstream.audience.leave(self._connection)

    def _listen_to(self, upstream: Upstream) -> None:
        if self._upstream is not upstream:
            self._turn_away()
            self._upstream = upstream
            upstream.audience.join(self._connection)


async def _started(upstream: Upstream, params: Raw) -> tuple[Upstream, str, Raw]:
    """Begin a session of next edit suggestions."""
    result = await upstream.ask(START, params)
    id = session_of(members(result))
    upstream.suggesting.add(id)
    return upstream, id, result


async def _stopped(started: tuple[Upstream, str, Raw]) -> None:
    upstream, id, _ = started
    upstream.stop_suggesting(id)


def _ours_too(found: dict[str, Raw]) -> Raw:
    """An agent's capabilities for clients, with the gateway's additions."""
    theirs = optional(meta(found), "dragoman")
    servers = {SERVERS: theirs[SERVERS]} if SERVERS in theirs else {}  # which clients reach through the gateway
    return changed(
        found,
        {"dragoman": {"gateway": __version__, "attach": {}, **servers}},
        loadSession=True,
        sessionCapabilities={**optional(found, "sessionCapabilities"), **OURS},
    )
