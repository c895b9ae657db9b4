"""What a client may call: a list, and nothing beside it.

One `Front` a connection.  Towards the client the gateway is an agent that can load, list, resume, close and delete
sessions, whatever the agent behind it can.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from .. import __version__, codec
from .. import schema as s
from ..connection import Connection
from ..errors import ConnectionClosed, InternalError, InvalidParams, InvalidRequest, RpcError
from ..roles import AgentRole, RemoteClient
from ..rpc import Method
from .gateway import PAGE, Gateway, unknown
from .limits import exceeded
from .logins import MAX_FAILURES
from .records import AFTER, changed, members, meta, meta_value, raw, session_of, text
from .seat import Role, Seat, may
from .shared import Shared
from .turns import answer, key_of, owner

log = logging.getLogger("dragoman")

OURS: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
NOT_THROUGH_US = ("fork", "archive", "status", "title")  # of an agent's, which know nothing of the log
MAX_CLIENT = 100
ATTACHED_AS: dict[str, Role] = {
    "observer": "viewer",  # as the draft of session/attach calls them
    "controller": "admin",
    "viewer": "viewer",
    "editor": "editor",
    "admin": "admin",
}
HISTORY = ("full", "pending_only", "none")

Handler = Callable[[Raw], Awaitable[Raw]]


class Front(AgentRole):
    """One client's connection, as the agent it takes us for."""

    def __init__(self, gateway: Gateway, agent: str, principal: str, connection: Connection) -> None:
        self.gateway, self.agent, self.connection = gateway, agent, connection
        self.client = secrets.token_hex(8)
        self.knows_us = False
        self.offers = s.ClientCapabilities()
        self._principal = principal
        self._seats: dict[str, tuple[Shared, Seat]] = {}
        self._failures = 0  # to log in to the agent

    @property
    def name(self) -> str:
        return self._principal

    def lends(self, method: str) -> bool:
        offered = (
            self.offers.fs.read_text_file if method.endswith("read_text_file") else self.offers.fs.write_text_file
        )
        return bool(self.offers.terminal if "terminal/" in method else offered)

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        requests: dict[str, Handler] = {
            "initialize": self._initialize,
            "authenticate": self._log_in,
            "logout": self._log_out,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/attach": self._attach,
            "session/detach": self._detach,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": functools.partial(self._forward, "session/set_mode"),
            "session/set_config_option": functools.partial(self._forward, "session/set_config_option"),
            "_dragoman/session/share": self._share,
            "_dragoman/queue/cancel": self._cancel_queued,
        }
        for name in self.gateway.agents[self.agent].passes:
            requests[name] = functools.partial(self._forward, name)
        methods = {
            name: Method(
                name, Raw, Raw, opens=name == "initialize", handler=functools.partial(self._guard, handler)
            )
            for name, handler in requests.items()
        }
        cancel = Method("session/cancel", Raw, is_request=False, handler=self._cancel)
        return methods, {"session/cancel": cancel}

    async def _guard(self, handler: Handler, params: Raw) -> Raw:
        try:
            return await handler(params)
        except ConnectionClosed as exc:
            raise InternalError(str(exc).partition("; its stderr")[0]) from None

    # Handshake

    async def _initialize(self, params: Raw) -> Raw:
        asked = codec.decode(params, s.InitializeRequest)
        self.offers = asked.client_capabilities
        told = (self.offers.meta or {}).get("dragoman")
        self.knows_us = told is not None
        if isinstance(told, Mapping) and isinstance(told.get("client"), str):
            self.client = str(told["client"])[:MAX_CLIENT]
        greeting = await self.gateway.processes.greeting(self.agent, self.name)
        return changed(greeting, agentCapabilities=_ours_too(greeting.get("agentCapabilities", raw({}))))

    async def _log_in(self, params: Raw) -> Raw:
        """Pass a login on; who fails too often is sent away."""
        upstream = await self.gateway.processes.get(self.agent, self.name)
        try:
            result = await upstream.call("authenticate", params)
        except RpcError:
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                self.connection.after_answer(self.connection.hang_up)
            raise
        self.gateway.logins.note(self.agent, self.name, result)
        self._failures = 0
        return result

    async def _log_out(self, params: Raw) -> Raw:
        upstream = await self.gateway.processes.get(self.agent, self.name)
        result = await upstream.call("logout", params)
        self.gateway.logins.forget(self.agent, self.name)
        return result

    # Sessions

    async def _new(self, params: Raw) -> Raw:
        self.gateway.logins.check(self.agent, self.name)
        shared, result = await self.gateway.new(self.agent, self.name, members(params))
        self._sit(shared, after=0)
        return result

    async def _load(self, params: Raw) -> Raw:
        """Everything that was said, then what is being said."""
        shared = await self.gateway.find(session_of(members(params)), self.name)
        await self._tell_all(self._sit(shared, after=0, echo=True), shared)
        return shared.card.state

    async def _resume(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self.gateway.find(session_of(found), self.name)
        self._sit(shared, after=_after(found, shared.history.durable))
        return shared.card.state

    async def _attach(self, params: Raw) -> Raw:
        """Come to a session as one of several: with a part of one's own choice, told as much as one wants."""
        found = members(params)
        shared = await self.gateway.find(session_of(found), self.name)
        wanted = text(found, "role") or "controller"
        policy = text(found, "historyPolicy") or "full"
        if wanted not in ATTACHED_AS or policy not in HISTORY:
            raise InvalidParams(f"role is one of {', '.join(ATTACHED_AS)}, historyPolicy of {', '.join(HISTORY)}")
        is_full = policy == "full" and AFTER not in meta(found)
        after = 0 if is_full else _after(found, shared.history.durable)
        seat = self._sit(shared, after=after, echo=is_full, most=ATTACHED_AS[wanted], asks=policy != "none")
        if is_full:
            await self._tell_all(seat, shared)
        return changed(members(shared.card.state), sessionId=shared.id, role=seat.role)

    def _sit(
        self, shared: Shared, *, after: int, echo: bool = False, most: Role = "admin", asks: bool = True
    ) -> Seat:
        """Take a seat; what happens is told once the client has its answer."""
        self._leave(shared.id)
        seat = shared.sit(self, after=after, echo=echo, most=most)
        self._seats[shared.id] = shared, seat
        self.connection.after_answer(lambda: shared.ready(seat, asks=asks))
        return seat

    async def _tell_all(self, seat: Seat, shared: Shared) -> None:
        """Have everything told that is in the log by now, before the client has its answer."""
        target = shared.history.durable
        seat.open()
        await seat.reached(target)

    def _leave(self, id: str) -> None:
        if found := self._seats.pop(id, None):
            shared, seat = found
            shared.rise(seat)

    def leave(self) -> None:
        """The client is gone; what it began goes on."""
        for id in list(self._seats):
            self._leave(id)

    async def _list(self, params: Raw) -> Raw:
        asked = codec.decode(params, s.ListSessionsRequest)
        cards = [
            (id, card)
            for id, card in await self.gateway.cards(self.name)
            if card.agent == self.agent and asked.cwd in (None, card.cwd)
        ]
        if not (asked.cursor or "0").isdecimal():
            raise InvalidParams("not a cursor of ours")
        start = int(asked.cursor or 0)
        shown = [
            {"sessionId": id, "cwd": card.cwd, "title": card.title, "updatedAt": _moment(card.updated)}
            for id, card in cards[start : start + PAGE]
        ]
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(cards) else {}
        return raw({"sessions": shown, **more})

    async def _close(self, params: Raw) -> Raw:
        """The owner ends the session; anybody else just leaves it."""
        shared = await self.gateway.find(session_of(members(params)), self.name)
        if may(shared.card.role_of(self.name), "admin"):
            await self.gateway.close(shared)
        self._leave(shared.id)
        return raw({})

    async def _delete(self, params: Raw) -> Raw:
        shared = await self._having(members(params), "admin")
        await self.gateway.delete(shared)
        self._seats.pop(shared.id, None)
        return raw({})

    async def _detach(self, params: Raw) -> Raw:
        id = session_of(members(params))
        if id not in self._seats:
            raise unknown(id)
        self._leave(id)
        return raw({})

    async def _share(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self._having(found, "admin")
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
        shared = await self._having(found, "editor")
        self.gateway.logins.check(self.agent, shared.card.principal)
        shared.check_room()
        if shared.id not in self._seats:
            seat = shared.sit(self, after=shared.history.durable)
            self._seats[shared.id] = shared, seat
            shared.ready(seat)
        key = key_of(found, self)
        try:
            number, ended = await shared.turns.prompt(key, found, self)
        except asyncio.CancelledError:
            if self.connection.closed:  # to hang up is not to cancel
                raise
            shared.turns.cancel_one(key)
            number, ended = await shared.turns.prompt(key, found, self)
        if kept := self._seats.get(shared.id):
            await kept[1].reached(number)
        return answer(ended)

    def _cancel(self, params: Raw) -> None:
        with contextlib.suppress(RpcError):
            found = self._seats.get(session_of(members(params)))
            if found and found[1].may_edit:
                # Not at once: a prompt that came just before has its task, but not yet its place in the queue.
                asyncio.get_running_loop().call_later(0, found[0].turns.cancel, self)

    async def _cancel_queued(self, params: Raw) -> Raw:
        found = members(params)
        shared = await self._having(found, "editor")
        key = text(found, "prompt") or ""
        if not key.startswith(owner(self.name)) and not may(shared.card.role_of(self.name), "admin"):
            raise InvalidRequest("only an admin of the session cancels what others have asked")
        if not shared.turns.cancel_one(key):
            raise InvalidParams("there is no such prompt in the queue")
        return raw({})

    async def _forward(self, name: str, params: Raw) -> Raw:
        found = members(params)
        shared = await self._having(found, "editor")
        result = await shared.link.forward(name, found)
        if name == "session/set_mode":
            shared.set_state(mode=found.get("modeId"))
        elif name == "session/set_config_option":
            shared.set_state(options=members(result).get("configOptions"))
        return result

    async def _having(self, found: dict[str, Raw], needed: Role) -> Shared:
        shared = await self.gateway.find(session_of(found), self.name)
        seated = self._seats.get(shared.id)
        if not may(seated[1].role if seated else shared.card.role_of(self.name), needed):
            raise InvalidRequest(f"this takes the role {needed} in the session", {"kind": "role", "needed": needed})
        return shared


def _after(found: dict[str, Raw], default: int) -> int:
    """The last update a client has seen."""
    after = meta_value(found, AFTER)
    if after is None:
        return default
    if not isinstance(after, int) or after < 0:
        raise InvalidParams(f"{AFTER} has to be the number of an update")
    return after


def _ours_too(capabilities: Raw) -> Raw:
    """An agent's capabilities as a client sees them: with what the gateway adds, without what it keeps back."""
    found = members(capabilities)
    sessions = members(found.get("sessionCapabilities", raw({})))
    sessions = {name: value for name, value in sessions.items() if name not in NOT_THROUGH_US}
    servers = {
        name: value for name, value in members(found.get("mcpCapabilities", raw({}))).items() if name != "acp"
    }
    kept = {name: value for name, value in found.items() if name not in ("nes", "providers")}
    return changed(
        kept,
        {"dragoman": {"gateway": __version__, "attach": {}}},
        loadSession=True,
        mcpCapabilities=servers,
        sessionCapabilities={**sessions, **OURS},
    )


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@contextlib.asynccontextmanager
async def front(
    gateway: Gateway, agent: str, principal: str, erred: Callable[[], None], client: RemoteClient
) -> AsyncIterator[Front]:
    """The app each connection is served; `erred` is called for each frame of the client's that is wrong."""
    assert isinstance(client.wire, Connection)
    client.wire.on_noise = erred
    served = Front(gateway, agent, principal, client.wire)
    gateway.metrics.connections.add(1)
    try:
        yield served
    finally:
        gateway.metrics.connections.add(-1)
        served.leave()
