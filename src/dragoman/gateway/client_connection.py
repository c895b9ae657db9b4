"""What a client may call: what the gateway answers itself, and what it passes on.

Towards the client of a `ClientConnection` the gateway is its agent, which can load, list, resume, close and delete
sessions, whatever the agent behind it can.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from .. import schema as s
from ..connection import Connection
from ..errors import ConnectionClosed, Error, InternalError, InvalidParams, InvalidRequest, MethodNotFound, RpcError
from ..proxy.relaying import Relayed
from ..roles import AgentRole, RemoteClient, offered
from ..rpc import Method
from .access.principals import PrincipalName
from .access.quotas import RETRY_AFTER, draining, exceeded
from .agents.introductions import BARE, introduced, lends
from .agents.mcp_servers import MESSAGE, ClientServers
from .agents.own_agent import OF_SUGGESTIONS, SUGGESTING, OwnAgent
from .client_requests import GATES, PARAMS, WAITS, WAITS_IN_WORDS, after_of, read_params
from .gateway import Gateway, unknown
from .log.engine import EngineFailure
from .log.records import (
    AFTER,
    PROMPT,
    SEQ,
    PromptEnded,
    changed,
    members,
    meta,
    optional,
    raw,
    session_of,
    text,
)
from .sessions.begun_sessions import ask_begun, begun_from, tell_begun
from .sessions.hosted_session import HostedSession
from .sessions.kept_sessions import KeptSessions
from .sessions.prompt_queue import answer, key_of, owner
from .sessions.viewer import Role, Viewer, check_role, may

log = logging.getLogger("dragoman")

ABOUT_NONE = ("auth/status", "providers/list", "providers/set", "providers/disable")  # no session
MAX_CLIENT = 100
ATTACHED_AS: dict[str, Role] = {
    "observer": "viewer",  # as the draft of session/attach calls them
    "controller": "admin",
    "viewer": "viewer",
    "editor": "editor",
    "admin": "admin",
}
HISTORY = ("full", "pending_only", "none")

STORAGE = {"kind": "storage", "retryAfter": RETRY_AFTER}

Handler = Callable[[Raw], Awaitable[Raw]]

# What no agent looks at, or not at once.
READ_HERE = {"initialize", "session/list", "session/prompt"}
READ_HERE |= {f"session/{name}" for name in ("new", "load", "resume", "close", "delete")}
CANCEL = "session/cancel"
OWN = "_dragoman/"  # what only a gateway answers


class ClientConnection(AgentRole):
    """One client's connection, as the agent it takes us for."""

    def __init__(self, gateway: Gateway, agent: str, principal: PrincipalName, connection: Connection) -> None:
        self.gateway, self.agent, self.connection = gateway, agent, connection
        self.client = secrets.token_hex(8)
        self.knows_us = self._comes_back = False
        self.offers = s.ClientCapabilities()
        self.introduction = BARE
        self._principal = principal
        self._seats: dict[str, tuple[HostedSession, Viewer]] = {}
        self._arriving: dict[str, list[asyncio.Event]] = {}  # prompts on their way, by session: set when cancelled
        self.servers = ClientServers(connection)
        self._own = OwnAgent(gateway, agent, principal, connection)
        self._kept = KeptSessions(self)

    @property
    def name(self) -> PrincipalName:
        return self._principal

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
            "session/prompt": self._prompt,
            MESSAGE: self._ask_over_line,
            "_dragoman/session/share": self._share,
            "_dragoman/queue/cancel": self._cancel_queued,
        }
        gated = {
            "session/fork": self._kept.fork,
            "session/archive": self._kept.archive,
            "session/unarchive": self._kept.unarchive,
            "session/status": self._kept.status,
            "session/set_title": self._kept.set_title,
        }
        requests |= {name: functools.partial(self._if_offered, name, handler) for name, handler in gated.items()}
        passed = ("session/set_mode", "session/set_config_option", *self.gateway.agents[self.agent].passes)
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
        """Whatever else a client asks: an extension of the agent's, or nothing that there is."""

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
        try:
            if name in READ_HERE:
                read_params(params, PARAMS[name])
            if begun := begun_from(self._seats, name, params):
                return await ask_begun(name, params, *begun)
            return await handler(params)
        except ConnectionClosed as exc:
            raise InternalError(str(exc).partition("; its stderr")[0]) from None
        except EngineFailure as exc:
            log.error("a request failed: %s", exc)
            raise InternalError("the gateway cannot write its log just now; try again later", STORAGE) from None

    # Handshake

    async def _initialize(self, params: Raw) -> Raw:
        self.introduction, self.offers = introduced(params)
        told = (self.offers.meta or {}).get("dragoman")
        self._comes_back = told is not None
        self.knows_us = told is not None and not (isinstance(told, Mapping) and told.get("plain"))
        if isinstance(told, Mapping) and isinstance(told.get("client"), str):
            self.client = str(told["client"])[:MAX_CLIENT]
        return await self._own.greet(self.introduction)

    def _tell_agent(self, name: str, params: Raw) -> None:
        """Pass a notification on; as with any, nobody is told if that cannot be done."""
        if begun := begun_from(self._seats, name, params):
            tell_begun(name, params, *begun)
            return
        found = optional({"params": params}, "params")
        if "sessionId" not in found:
            self._own.tell(name, params)
            return
        with contextlib.suppress(RpcError):
            shared, seat = self._seats.get(session_of(found), (None, None))
            if shared and seat and seat.may_edit:
                shared.link.tell(name, found)

    async def _ask_over_line(self, params: Raw) -> Raw:
        """Pass on what an MCP server in the client asks, over a connection that the agent has opened."""
        found = members(params)
        if line := self.servers.line(found):
            return await line.agent.call(MESSAGE, changed(found, connectionId=line.of_agent))
        return await self._own.ask(MESSAGE, params)  # which knows how to refuse it

    def _told_by_server(self, params: Raw) -> None:
        self.connection.in_turn(functools.partial(self.servers.tell, params))

    async def _if_offered(self, name: str, handler: Handler, params: Raw) -> Raw:
        """Answer what an agent may be able to do with sessions, if this one is."""
        if not offered(self._own.offers, GATES[name]):
            raise MethodNotFound(data={"method": name})
        return await handler(params)

    # Sessions

    async def _new(self, params: Raw) -> Raw:
        self.gateway.logins.check(self.agent, self.name)
        shared, result = await self.gateway.new(self.agent, self.name, members(params), self)
        seat = self._sit(shared, members(shared.card.opening), after=shared.told_early)
        for number in range(1, shared.told_early + 1):
            seat.show(await shared.update(number))
        return self._placed(result, seat)

    def forked(self, shared: HostedSession, result: Raw) -> Raw:
        """Sit down at a copy of a session, whose history is known; gives the answer."""
        return self._placed(result, self._sit(shared, members(shared.card.opening), after=shared.told_early))

    def _placed(self, result: Raw, seat: Viewer) -> Raw:
        """An answer that opens a session, for those who may come back: what they have been told so far."""
        return changed(members(result), {SEQ: seat.cursor}) if self._comes_back else result

    async def _load(self, params: Raw) -> Raw:
        """Everything that was said, then what is being said."""
        shared = await self.gateway.find(session_of(members(params)), self.name)
        seat = self._sit(shared, members(params), after=0, echo=True)
        await self._tell_all(seat, shared)
        shared.card.archived = False
        return self._placed(self._state(shared), seat)

    async def _resume(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self.gateway.find(session_of(found), self.name)
        seat = self._sit(shared, found, after=after_of(found, shared.history.durable))
        shared.card.archived = False
        if AFTER not in meta(found):
            await self._announce(shared, seat)
        return self._placed(self._state(shared), seat)

    def _state(self, shared: HostedSession) -> Raw:
        return self._seat(shared.id).fit.options(members(shared.card.state))

    async def _announce(self, shared: HostedSession, seat: Viewer) -> None:
        """Tell a client that knows nothing of the session which commands there are, as an agent does: first."""
        if (commands := await shared.commands(seat.cursor)) is not None:
            seat.show(commands)

    async def _attach(self, params: Raw) -> Raw:
        """Come to a session as one of several: with a part of one's own choice, told as much as one wants."""
        found = members(params)
        shared = await self.gateway.find(session_of(found), self.name)
        wanted = text(found, "role") or "controller"
        policy = text(found, "historyPolicy") or "full"
        if wanted not in ATTACHED_AS or policy not in HISTORY:
            raise InvalidParams(f"role is one of {', '.join(ATTACHED_AS)}, historyPolicy of {', '.join(HISTORY)}")
        is_full = policy == "full" and AFTER not in meta(found)
        after = 0 if is_full else after_of(found, shared.history.durable)
        seat = self._sit(shared, found, after=after, echo=is_full, most=ATTACHED_AS[wanted], asks=policy != "none")
        if is_full:
            await self._tell_all(seat, shared)
        return changed(members(self._state(shared)), sessionId=shared.id, role=seat.role)

    def _sit(
        self,
        shared: HostedSession,
        opening: dict[str, Raw],
        *,
        after: int,
        echo: bool = False,
        most: Role = "admin",
        asks: bool = True,
    ) -> Viewer:
        """Take a seat; what happens is told once the client has its answer."""
        self._leave(shared.id)
        shared.servers.offer(self, opening)
        seat = shared.sit(self, after=after, echo=echo, most=most)
        self._seats[shared.id] = shared, seat
        self.connection.after_answer(lambda: shared.ready(seat, asks=asks))
        return seat

    async def _tell_all(self, seat: Viewer, shared: HostedSession) -> None:
        """Have everything told that is in the log by now, before the client has its answer."""
        target = shared.history.durable
        seat.open()
        await seat.reached(target)

    def _leave(self, id: str) -> None:
        if found := self._seats.pop(id, None):
            shared, seat = found
            shared.rise(seat)

    def left(self, session: str, seat: Viewer) -> None:
        """A seat is no more, whoever's doing it was."""
        if self._seats.get(session, (None, None))[1] is seat:
            del self._seats[session]

    def leave(self) -> None:
        """The client is gone; what it began goes on."""
        self._own.leave()
        self.servers.leave()
        for id in list(self._seats):
            self._leave(id)

    async def _list(self, params: Raw) -> Raw:
        return await self._kept.list(read_params(params, s.ListSessionsRequest))

    async def _close(self, params: Raw) -> Raw:
        """Who is its admin here ends the session; anybody else just leaves it."""
        id = session_of(members(params))
        if not may(await self._role(id), "admin"):
            self._leave(id)
        elif shared := self.gateway.live.get(id):
            await self.gateway.close(shared)  # which sends everybody away
        return raw({})

    async def _detach(self, params: Raw) -> Raw:
        id = session_of(members(params))
        self._seat(id)
        self._leave(id)
        return raw({})

    async def _share(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self.having(found, "admin")
        if (principal := text(found, "principal")) is None or "\n" in principal:
            raise InvalidParams("principal is missing")
        role = msgspec.json.decode(found.get("role", b"null"))
        await self.gateway.share(shared, principal, role)
        return raw({})

    # Prompts

    async def _prompt(self, params: Raw) -> Raw:
        if len(params) > self.gateway.limits.prompt_bytes:
            raise exceeded("prompt_bytes", self.gateway.limits.prompt_bytes)
        found = members(params)
        with self._arrives(session_of(found)) as cancelled:
            shared, seat = await self._seated(found)
            self.gateway.logins.check(self.agent, shared.card.principal)
            shared.check_room()
            key = key_of(found, self)
            outcome = shared.turns.prompt(key, found, self)
            if cancelled.is_set():
                shared.turns.cancel_one(key)
        self._show_wait(shared, seat, key)
        seat.owed[key] = functools.partial(self._answer, self.connection.answering)
        while True:
            try:
                number, ended = await asyncio.shield(outcome)
                await seat.reached(number)
                return answer(ended)
            except asyncio.CancelledError:
                if self.connection.closed:  # to hang up is not to cancel
                    raise
                shared.turns.cancel_one(key)
            finally:
                if outcome.done():
                    seat.owed.pop(key, None)

    def _show_wait(self, shared: HostedSession, seat: Viewer, key: str) -> None:
        """Tell a client that its prompt waits for one that came over another connection, if nothing else does.

        Whoever sends a second prompt over its own connection knows of the first.
        """
        running = shared.turns.running
        waits = running and running.key != key and any(turn.key == key for turn in shared.turns.waiting)
        if running and waits and running.key not in seat.owed and not self.knows_us:
            seat.show_alone(WAITS if offered(self.offers, "session.notices") else WAITS_IN_WORDS)

    def _answer(self, request: int, ended: PromptEnded) -> None:
        """Answer a prompt at the moment that its client has been told everything before its outcome."""
        if ended.error:
            self.connection.peer.fail(request, ended.error.error())
        else:
            self.connection.answer_early(request, ended.result)

    @contextlib.contextmanager
    def _arrives(self, session: str) -> Iterator[asyncio.Event]:
        """A prompt is on its way into its queue: gives what is set should it be cancelled before it is there."""
        cancelled = asyncio.Event()
        arriving = self._arriving.setdefault(session, [])
        arriving.append(cancelled)
        try:
            yield cancelled
        finally:
            arriving.remove(cancelled)
            if not arriving:
                del self._arriving[session]

    def _cancel(self, params: Raw) -> None:
        with contextlib.suppress(RpcError):
            if begun_from(self._seats, CANCEL, params):
                self.connection.in_turn(functools.partial(self._tell_agent, CANCEL, params))
                return
            id = session_of(members(params))
            seat = self._seat(id)
            if seat.may_edit:
                self.connection.in_turn(functools.partial(self._cancel_turns, id))

    def _cancel_turns(self, id: str) -> None:
        for cancelled in self._arriving.get(id, ()):
            cancelled.set()
        if shared := self.gateway.live.get(id):
            shared.turns.cancel(self)

    async def _cancel_queued(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self.having(found, "editor")
        key = key_of(found, self) if PROMPT in meta(found) else text(found, "prompt") or ""
        if not key.startswith(owner(self.name)) and not may(shared.card.role_of(self.name), "admin"):
            raise InvalidRequest("only an admin of the session cancels what others have asked")
        if not shared.turns.cancel_one(key):
            raise InvalidParams("there is no such prompt in the queue")
        return raw({})

    async def _forward(self, name: str, params: Raw) -> Raw:
        """Pass on what is about a session; what the agent tells before its answer is told before it."""
        found = members(params)
        shared, seat = await self._seated(found)
        result = await shared.link.forward(name, found)
        with contextlib.suppress(Error):  # a log that takes no more is said elsewhere
            await shared.in_order(seat)
        if name == "session/set_mode":
            shared.set_state(mode=found.get("modeId"))
        elif name == "session/set_config_option":
            shared.set_state(options=members(result).get("configOptions"))
            return seat.fit.options(members(result))
        return result

    async def having(self, found: dict[str, Raw], needed: Role) -> HostedSession:
        """A session in which this client is at least `needed`, whether it has opened it or not."""
        id = session_of(found)
        await self.must_be(id, needed)
        return await self.gateway.find(id, self.name)

    async def must_be(self, id: str, needed: Role) -> None:
        """Raise unless this client is at least `needed` in a session."""
        check_role(await self._role(id), needed)

    async def _seated(self, found: dict[str, Raw]) -> tuple[HostedSession, Viewer]:
        """A session this client has opened, and in which it may act; any other is as unknown as on stdio."""
        id = session_of(found)
        check_role(self._seat(id).role, "editor")
        shared = await self.gateway.find(id, self.name)
        return shared, self._seat(id)

    def _seat(self, id: str) -> Viewer:
        """Where this client sits at a session; one that was closed for everybody is to be opened again."""
        if found := self._seats.get(id):
            return found[1]
        raise draining() if self.gateway.is_draining else unknown(id)

    async def _role(self, id: str) -> Role | None:
        """What this client is at a session: by its seat, or if it has none by who it is."""
        card = await self.gateway.known(id, self.name)
        found = self._seats.get(id)
        return found[1].role if found else card.role_of(self.name)


@contextlib.asynccontextmanager
async def front(
    gateway: Gateway, agent: str, principal: str, erred: Callable[[], None], client: RemoteClient
) -> AsyncIterator[ClientConnection]:
    """The app each connection is served; `erred` is called for each frame of the client's that is wrong."""
    assert isinstance(client.wire, Connection)
    client.wire.on_noise = erred
    served = ClientConnection(gateway, agent, PrincipalName(principal), client.wire)
    gateway.metrics.connections.add(1)
    try:
        yield served
    finally:
        gateway.metrics.connections.add(-1)
        served.leave()
