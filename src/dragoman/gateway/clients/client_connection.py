"""The methods that a client may call: some the gateway answers itself, others it passes on.

For its client, a `ClientConnection` is the agent, which can load, list, resume, close and delete sessions, whatever
the agent behind it can.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ... import schema as s
from ...client.agent_servers import MESSAGE as TO_SERVER
from ...connection.connection import Connection
from ...connection.remotes import RemoteClient
from ...errors import ConnectionClosed, Error, InternalError, InvalidParams, MethodNotFound, RpcError
from ...events import Method
from ...proxy.relaying import Relayed
from ...roles import AgentRole, offered
from ..access.introductions import BARE, introduced, lends
from ..access.limits import RETRY_AFTER, draining
from ..access.principals import PrincipalName
from ..access.roles import Role, check_role, may
from ..agents.mcp_servers import MESSAGE, ClientServers
from ..gateway import Gateway, unknown
from ..log.engine import EngineFailure
from ..log.records import AFTER, OWN_WORDS, SEQ, changed, members, meta, meta_value, optional, raw, session_of, text
from ..log_context import LONGEST, about, log_access
from ..sessions.begun_sessions import ask_begun, begun_from, tell_begun
from ..sessions.hosted_session import HostedSession
from ..sessions.viewer import Viewer
from .client_prompts import ClientPrompts
from .client_requests import CAPABILITIES, PARAMS, after_of, read_params
from .kept_sessions import KeptSessions
from .own_agent import OF_SUGGESTIONS, SUGGESTING, OwnAgent

log = logging.getLogger("dragoman")

ABOUT_NONE = ("auth/status", "providers/list", "providers/set", "providers/disable")  # no session
FORWARDED = ("session/set_mode", "session/set_config_option", TO_SERVER)
MAX_CLIENT = 100
ATTACHED_AS: dict[str, Role] = {
    "observer": "viewer",  # the names in the draft of session/attach
    "controller": "admin",
    "viewer": "viewer",
    "editor": "editor",
    "admin": "admin",
}
HISTORY = ("full", "pending_only", "none")

STORAGE = {"kind": "storage", "retryAfter": RETRY_AFTER}

Handler = Callable[[Raw], Awaitable[Raw]]

# Members that agents ignore or do not need at once.
READ_HERE = {"initialize", "session/list", "session/prompt"}
READ_HERE |= {f"session/{name}" for name in ("new", "load", "resume", "close", "delete")}
CANCEL = "session/cancel"
OWN = "_dragoman/"  # methods that only a gateway answers


class ClientConnection(AgentRole):
    """One client's connection, on which the gateway acts as the agent."""

    def __init__(self, gateway: Gateway, agent: str, principal: PrincipalName, connection: Connection) -> None:
        self.gateway, self.agent, self.connection = gateway, agent, connection
        self.client_id = secrets.token_hex(8)
        self.knows_us = self._comes_back = False
        self._asking = 0  # unanswered requests
        self.offers = s.ClientCapabilities()
        self.introduction = BARE
        self._principal = principal
        self._viewers: dict[str, tuple[HostedSession, Viewer]] = {}
        self._prompts = ClientPrompts(self)
        self.servers = ClientServers(connection)
        self._own = OwnAgent(gateway, agent, principal, connection)
        self._kept = KeptSessions(self)

    @property
    def name(self) -> PrincipalName:
        return self._principal

    @property
    def is_quiet(self) -> bool:
        """Whether it has no unanswered request and nothing runs in the sessions it views."""
        sessions = (session for session, _ in self._viewers.values())
        return not self._asking and not any(one.turns.is_busy or one.questions for one in sessions)

    def lends(self, method: str) -> bool:
        return lends(self.offers, method)

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        requests: dict[str, Handler] = {
            "initialize": self._initialize,
            "authenticate": self._own.log_in,
            "logout": self._own.log_out,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/attach": self._attach,
            "session/detach": self._detach,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._kept.delete,
            "session/prompt": self._prompts.prompt,
            MESSAGE: self._ask_over_line,
            "_dragoman/session/share": self._share,
            "_dragoman/queue/cancel": self._prompts.cancel_queued,
        }
        optional = {
            "session/fork": self._kept.fork,
            "session/archive": self._kept.archive,
            "session/unarchive": self._kept.unarchive,
            "session/status": self._kept.status,
            "session/set_title": self._kept.set_title,
        }
        requests |= {name: functools.partial(self._if_offered, name, handler) for name, handler in optional.items()}
        passed = (*FORWARDED, *self.gateway.agents[self.agent].passes)
        requests |= {name: functools.partial(self._forward, name) for name in passed}
        requests |= {name: functools.partial(self._own.ask, name) for name in ABOUT_NONE}
        requests |= {name: functools.partial(self._own.suggest, name) for name in SUGGESTING}
        known = {name: self._method(name, handler) for name, handler in requests.items()}
        cancel = Method(CANCEL, Raw, is_request=False, handler=self._cancel)
        said = Method(MESSAGE, Raw, is_request=False, handler=self._told_by_server)
        return Relayed(known, self._unknown), Relayed({CANCEL: cancel, MESSAGE: said}, self._unknown_note)

    def _method(self, name: str, handler: Handler) -> Method:
        return Method(
            name, Raw, Raw, opens=name == "initialize", handler=functools.partial(self._guard, name, handler)
        )

    def _unknown(self, name: str) -> Method:
        """Pass on any other request: an extension of the agent, or an unknown method."""

        async def pass_on(params: Raw) -> Raw:
            if not name.startswith("_") or name.startswith(OWN):
                raise MethodNotFound(data={"method": name})
            is_about_session = "sessionId" in optional({"params": params}, "params")
            return await (self._forward if is_about_session else self._own.ask)(name, params)

        return self._method(name, pass_on)

    def _unknown_note(self, name: str) -> Method:
        def pass_on(params: Raw) -> None:
            if name.startswith(OF_SUGGESTIONS):
                self.connection.in_turn(functools.partial(self._own.tell, name, params))
            elif name.startswith("_") and not name.startswith(OWN):
                self.connection.in_turn(functools.partial(self._tell_agent, name, params))

        return Method(name, Raw, is_request=False, handler=pass_on)

    async def _guard(self, name: str, handler: Handler, params: Raw) -> Raw:
        began, outcome = time.monotonic(), "cancelled"
        with about(principal=self.name, request=secrets.token_hex(4), **_session_named(params)):
            try:
                answer = await self._answer(name, handler, params)
                outcome = "answered"
                return answer
            except RpcError as exc:
                outcome = str(exc.code)
                raise
            finally:
                log_access(name, outcome, began, method=name[:LONGEST])

    async def _answer(self, name: str, handler: Handler, params: Raw) -> Raw:
        if self.gateway.is_leaving and name == "session/prompt":
            await asyncio.Future()  # the client repeats the request at the process that has taken over
        self._asking += 1
        try:
            with self.gateway.budget.take("requests", self.name):
                if name in READ_HERE:
                    read_params(params, PARAMS[name])
                if begun := begun_from(self._viewers, name, params):
                    return await ask_begun(name, params, *begun)
                return await handler(params)
        except ConnectionClosed as exc:
            raise InternalError(exc.reason) from None
        except EngineFailure as exc:
            log.error("a request failed: %s", exc)
            raise InternalError("the gateway cannot write its log now; try again later", STORAGE) from None
        finally:
            self._asking -= 1

    # Handshake

    async def _initialize(self, params: Raw) -> Raw:
        self.introduction, self.offers = introduced(params)
        told = (self.offers.meta or {}).get("dragoman")
        self._comes_back = told is not None
        self.knows_us = told is not None and not (isinstance(told, Mapping) and told.get("plain"))
        if isinstance(told, Mapping) and isinstance(told.get("client"), str):
            self.client_id = str(told["client"])[:MAX_CLIENT]
        return await self._own.greet(self.introduction)

    def _tell_agent(self, name: str, params: Raw) -> None:
        """Pass on a notification; as with any notification, failures are not reported."""
        if begun := begun_from(self._viewers, name, params):
            tell_begun(name, params, *begun)
            return
        found = optional({"params": params}, "params")
        if "sessionId" not in found:
            self._own.tell(name, params)
            return
        with contextlib.suppress(RpcError):
            session, viewer = self._viewers.get(session_of(found), (None, None))
            if session and viewer and viewer.may_edit:
                session.link.tell(name, found)

    async def _ask_over_line(self, params: Raw) -> Raw:
        """Pass on a request of an MCP server in the client, over a connection that the agent has opened."""
        found = members(params)
        if line := self.servers.line(found):
            return await line.agent.call(MESSAGE, changed(found, connectionId=line.of_agent))
        return await self._own.ask(MESSAGE, params)  # it refuses the request itself

    def _told_by_server(self, params: Raw) -> None:
        self.connection.in_turn(functools.partial(self.servers.tell, params))

    async def _if_offered(self, name: str, handler: Handler, params: Raw) -> Raw:
        """Answer a session method that agents may support, if this agent does."""
        if not self.is_offered(name):
            raise MethodNotFound(data={"method": name})
        return await handler(params)

    def is_offered(self, name: str) -> bool:
        """Whether the agent itself advertises a method."""
        return offered(self._own.offers, CAPABILITIES[name])

    # Sessions

    async def _new(self, params: Raw) -> Raw:
        self.gateway.logins.check(self.agent, self.name)
        session, result = await self.gateway.new(self.agent, self.name, members(params), self)
        viewer = self._join(session, members(session.facts.opening), after=session.told_early)
        for number in range(1, session.told_early + 1):
            viewer.show(await session.update(number))
        return self._placed(result, viewer)

    def forked(self, session: HostedSession, result: Raw) -> Raw:
        """View a copy of a session, whose history is known; returns the answer."""
        return self._placed(result, self._join(session, members(session.facts.opening), after=session.told_early))

    def _placed(self, result: Raw, viewer: Viewer) -> Raw:
        """An answer that opens a session, with the client's position for a later resume."""
        return changed(members(result), {SEQ: viewer.cursor}) if self._comes_back else result

    async def _load(self, params: Raw) -> Raw:
        """Send the whole history, then the live updates."""
        session = await self.gateway.find(session_of(members(params)), self.name)
        viewer = self._join(session, members(params), after=0, echo=True)
        await self._tell_all(viewer, session)
        session.facts.archived = False
        return self._placed(self._state(session), viewer)

    async def _resume(self, params: Raw) -> Raw:
        found = members(params)
        session = await self.gateway.find(session_of(found), self.name)
        viewer = self._join(session, found, after=after_of(found, session.history.durable))
        session.facts.archived = False
        if AFTER not in meta(found):
            await self._announce(session, viewer)
        return self._placed(self._state(session), viewer)

    def _state(self, session: HostedSession) -> Raw:
        return self.viewer(session.id).fit.options(members(session.facts.state))

    async def _announce(self, session: HostedSession, viewer: Viewer) -> None:
        """Send a client that is new to the session the slash commands first, as an agent does."""
        if (commands := await session.commands(viewer.cursor)) is not None:
            viewer.show(commands)

    async def _attach(self, params: Raw) -> Raw:
        """Attach to a session with a chosen role and amount of history."""
        found = members(params)
        session = await self.gateway.find(session_of(found), self.name)
        wanted = text(found, "role") or "controller"
        policy = text(found, "historyPolicy") or "full"
        if wanted not in ATTACHED_AS or policy not in HISTORY:
            raise InvalidParams(f"role is one of {', '.join(ATTACHED_AS)}, historyPolicy of {', '.join(HISTORY)}")
        is_full = policy == "full" and AFTER not in meta(found)
        after = 0 if is_full else after_of(found, session.history.durable)
        viewer = self._join(
            session, found, after=after, echo=is_full, most=ATTACHED_AS[wanted], is_asked=policy != "none"
        )
        if is_full:
            await self._tell_all(viewer, session)
        return changed(members(self._state(session)), sessionId=session.id, role=viewer.role)

    def _join(
        self,
        session: HostedSession,
        opening: dict[str, Raw],
        *,
        after: int,
        echo: bool = False,
        most: Role = "admin",
        is_asked: bool = True,
    ) -> Viewer:
        """Become a viewer; updates are sent after the answer."""
        self._leave(session.id)
        session.servers.offer(self, opening)
        viewer = session.join(self, after=after, echo=echo, most=most)
        viewer.hears_itself = meta_value(opening, OWN_WORDS) is True
        self._viewers[session.id] = session, viewer
        self.connection.after_answer(lambda: session.ready(viewer, is_asked=is_asked))
        return viewer

    async def _tell_all(self, viewer: Viewer, session: HostedSession) -> None:
        """Send everything that is in the log by now, before the answer."""
        target = session.history.durable
        viewer.open()
        await viewer.reached(target)

    def _leave(self, id: str) -> None:
        if found := self._viewers.pop(id, None):
            session, viewer = found
            session.leave(viewer)

    def left(self, session: str, viewer: Viewer) -> None:
        """Note that a viewer of this client has left."""
        if self._viewers.get(session, (None, None))[1] is viewer:
            del self._viewers[session]

    def leave(self) -> None:
        """Note that the client has disconnected; its turns continue."""
        self._own.leave()
        self.servers.leave()
        for id in list(self._viewers):
            self._leave(id)

    async def _list(self, params: Raw) -> Raw:
        return await self._kept.list(read_params(params, s.ListSessionsRequest))

    async def _close(self, params: Raw) -> Raw:
        """Close a session: for everybody if the client is its admin, otherwise only leave it."""
        id = session_of(members(params))
        if not may(await self._role(id), "admin"):
            self._leave(id)
        elif session := self.gateway.live.get(id):
            await self.gateway.close(session)  # this ends all viewers
        return raw({})

    async def _detach(self, params: Raw) -> Raw:
        id = session_of(members(params))
        self.viewer(id)
        self._leave(id)
        return raw({})

    async def _share(self, params: Raw) -> Raw:
        found = members(params)
        session = await self.having(found, "admin")
        if (principal := text(found, "principal")) is None or "\n" in principal:
            raise InvalidParams("principal is missing")
        role = msgspec.json.decode(found.get("role", b"null"))
        await self.gateway.share(session, principal, role)
        return raw({})

    # Messages about sessions

    def _cancel(self, params: Raw) -> None:
        with contextlib.suppress(RpcError):
            if begun_from(self._viewers, CANCEL, params):
                self.connection.in_turn(functools.partial(self._tell_agent, CANCEL, params))
                return
            id = session_of(members(params))
            if self.viewer(id).may_edit:
                self.connection.in_turn(functools.partial(self._prompts.cancel, id))

    async def _forward(self, name: str, params: Raw) -> Raw:
        """Pass on a request about a session; updates that the agent sends before its answer are sent first."""
        found = members(params)
        session, viewer = await self.opened(found)
        result = await session.link.forward(name, found)
        with contextlib.suppress(Error):  # a broken log is reported elsewhere
            await session.clients.in_order(viewer)
        if name == "session/set_mode":
            session.set_state(mode=found.get("modeId"))
        elif name == "session/set_config_option":
            session.set_state(options=members(result).get("configOptions"))
            return viewer.fit.options(members(result))
        return result

    async def having(self, found: dict[str, Raw], needed: Role) -> HostedSession:
        """A session in which this client has at least the role `needed`, whether it has opened it or not."""
        id = session_of(found)
        await self.must_be(id, needed)
        return await self.gateway.find(id, self.name)

    async def must_be(self, id: str, needed: Role) -> None:
        """Raise unless this client has at least the role `needed` in a session."""
        check_role(await self._role(id), needed)

    async def opened(self, found: dict[str, Raw]) -> tuple[HostedSession, Viewer]:
        """A session that this client has opened and in which it may act; others count as unknown, as over stdio."""
        id = session_of(found)
        check_role(self.viewer(id).role, "editor")
        session = await self.gateway.find(id, self.name)
        return session, self.viewer(id)

    def viewer(self, id: str) -> Viewer:
        """This client's viewer of a session; a session that was closed for everybody has to be opened again."""
        if found := self._viewers.get(id):
            return found[1]
        raise draining() if self.gateway.is_draining else unknown(id)

    async def _role(self, id: str) -> Role | None:
        """This client's role in a session: the viewer's, or without a viewer its principal's."""
        facts = await self.gateway.known(id, self.name)
        found = self._viewers.get(id)
        return found[1].role if found else facts.role_of(self.name)


def _session_named(params: Raw) -> dict[str, str]:
    """The session in unchecked params, for the log."""
    with contextlib.suppress(InvalidParams):
        if session := text(optional({"params": params}, "params"), "sessionId"):
            return {"session": session[:LONGEST]}
    return {}


@contextlib.asynccontextmanager
async def serve_client(
    gateway: Gateway,
    agent: str,
    principal: str,
    erred: Callable[[], None],
    client: RemoteClient,
    *,
    begun: Callable[[ClientConnection], None] = lambda _: None,
) -> AsyncIterator[ClientConnection]:
    """The app of each connection; `begun` is called with it, `erred` for each wrong frame."""
    client.wire.on_noise = erred
    served = ClientConnection(gateway, agent, PrincipalName(principal), client.wire)
    gateway.metrics.connections.add(1)
    begun(served)
    try:
        yield served
    finally:
        gateway.metrics.connections.add(-1)
        served.leave()
