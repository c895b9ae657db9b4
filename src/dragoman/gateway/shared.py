"""A session that several people share: its log, its agent, its turns, its questions, the seats at it.

What the agent says is written down and then told to every seat.  Who holds the session's lease writes; whoever
finds that somebody else does lets go of the session at once.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .. import schema as s
from ..errors import ConnectionClosed, Error, InternalError, InvalidParams, RpcError
from ..rpc import Method
from ..transcript import Message, ToolCallEntry, Transcript
from .asks import CANCELLED, Asks
from .desk import Desk
from .engine import Entry, Lease
from .history import History
from .limits import exceeded
from .records import (
    Answered,
    Asked,
    Ended,
    Prompted,
    changed,
    members,
    own_frame,
    raw,
    read_own,
    text,
    update_frame,
    update_params,
)
from .seat import RANK, Role, Seat, Visitor
from .turns import Turns, interruption
from .upstream import Upstream

log = logging.getLogger("dragoman")

HELD_AT = 4 * 1024 * 1024  # bytes not yet durable, before an agent has to wait
PRIMER = 32 * 1024  # characters of an earlier conversation told to an agent that has forgotten it
LENDING_TIMEOUT = 30.0


class Card(Struct, omit_defaults=True):
    """What is kept of a session besides its log."""

    agent: str
    principal: str
    cwd: str
    opening: Raw  # what it was opened with, to be opened again
    state: Raw = Raw(b"{}")  # what the agent answered: modes, options
    upstream: str = ""  # what the agent calls it
    created: float = 0.0
    updated: float = 0.0
    title: str | None = None
    roles: dict[str, Role] = {}  # of others than the owner

    def role_of(self, principal: str) -> Role | None:
        return "admin" if principal == self.principal else self.roles.get(principal)


class Shared:
    """One session; `recover` before anybody sits down."""

    def __init__(self, id: str, card: Card, lease: Lease, last: int, desk: Desk) -> None:
        self.id, self.card = id, card
        self.size = 0  # bytes of the log
        self.is_unsaved = False  # its card has changed since it was kept
        self.seats: list[Seat] = []
        self._desk = desk
        self.history = History(desk.engine, lease, last, desk.metrics, self._publish, self._broke)
        self.asks = Asks(id, self.history, lambda: list(self.seats), desk.metrics)
        self.turns = Turns(
            id, self.history, desk.engine, self.asks, self.link, self._show_queue, desk.limits, desk.metrics
        )
        self._upstream: Upstream | None = None
        self._primer: list[Any] = []
        self._is_swallowing = False  # the agent tells what is in the log already
        self._linking = asyncio.Lock()
        self._held: Upstream | None = None

    # The log

    async def recover(self) -> None:
        """Read the log, and give everything that was under way when its last writer stopped its one outcome."""
        prompts: dict[str, None] = {}
        asks: dict[str, Asked] = {}
        at = 0
        while records := await self._desk.engine.read(self.id, at):
            at = records[-1].number
            for record in records:
                self.size += len(record.entry.frame)
                if (params := update_params(record.entry.frame)) is not None:
                    self.turns.tools.saw(members(params).get("update", raw({})))
                    continue
                match read_own(record.entry.frame):
                    case Prompted(prompt=key):
                        prompts[key] = None
                    case Ended(prompt=key):
                        prompts.pop(key, None)
                        self.turns.ended[key] = record.number
                    case Asked() as asked:
                        asks[asked.ask] = asked
                    case Answered(ask=ask):
                        asks.pop(ask, None)
        for asked in asks.values():
            answered = Answered(asked.ask, CANCELLED[asked.method])
            self._remember(answered)
        if prompts:
            for failure in self.turns.tools.failures():
                self._tell(failure)
        for key in prompts:
            ended = Ended(key, error=interruption("the gateway was restarted"), interrupted=True)
            self.turns.ended[key] = self._remember(ended)
            self._desk.metrics.turns.add(1, "interrupted")
        await self.history.settled()

    def _remember(self, record: Answered | Ended) -> int:
        return self.history.add("gateway", lambda _: own_frame(record))

    def _tell(self, found: dict[str, Raw]) -> None:
        self.history.add("gateway", lambda number: update_frame(found, self.id, number))

    def _publish(self, first: int, entries: Sequence[Entry]) -> None:
        self.size += sum(len(entry.frame) for entry in entries)
        self.card.updated, self.is_unsaved = time.time(), True
        for seat in list(self.seats):
            seat.offer(first, entries)
        if self._held and self.history.waiting < HELD_AT // 4:
            held, self._held = self._held, None
            held.connection.resume()

    def _broke(self) -> None:
        """The log takes no more: nobody is told anything that is not in it."""
        log.error("session %s is let go: %s", self.id, self.history.broken)
        if self._held:
            held, self._held = self._held, None
            held.connection.resume()
        self._desk.let_go(self)

    # The agent

    def heard(self, params: dict[str, Raw]) -> None:
        if self._is_swallowing or self.history.broken:
            return
        self.turns.tools.saw(params.get("update", raw({})))
        self.turns.heard()
        self._follow(params.get("update", raw({})))
        self.history.add("agent", lambda number: update_frame(params, self.id, number))
        if self.history.waiting > HELD_AT and self._held is None and self._upstream:
            self._held = self._upstream
            self._held.connection.hold()

    def _follow(self, update: Raw) -> None:
        """Keep what a client that loads the session is to be told of its modes and options."""
        data = bytes(update)
        if b"_mode_update" not in data and b"_option" not in data and b"_info_update" not in data:
            return
        found = members(update)
        if text(found, "sessionUpdate") == "session_info_update" and "title" in found:
            self.card.title = msgspec.json.decode(found["title"], type=str | None)
        if "currentModeId" in found:
            self.set_state(mode=found["currentModeId"])
        elif "configOptions" in found:
            self.set_state(options=found["configOptions"])

    def set_state(self, *, mode: Raw | None = None, options: Raw | None = None) -> None:
        state = members(self.card.state)
        if mode is not None and "modes" in state:
            state["modes"] = changed(members(state["modes"]), currentModeId=mode)
        if options is not None:
            state["configOptions"] = options
        self.card.state = raw(state)

    async def asked(self, method: str, params: dict[str, Raw]) -> Raw:
        return await self.asks.put(method, params)

    async def lent(self, method: str, params: dict[str, Raw]) -> Raw:
        """Ask the client that owns the workspace for what only it has."""
        for seat in self.seats:
            if seat.role == "admin" and seat.visitor.lends(method):
                timeout = None if method.endswith("wait_for_exit") else LENDING_TIMEOUT
                call = seat.visitor.connection.call(
                    Method(method, Raw, Raw, timeout=timeout), changed(params, sessionId=self.id)
                )
                try:
                    return await call  # type: ignore[no-any-return]
                except RpcError as exc:
                    raise RpcError.of(exc.code, exc.message, exc.data) from None
                except Error as exc:
                    raise InternalError(f"the client that owns the workspace did not answer: {exc}") from None
        raise InternalError(
            "no client that owns this session's workspace is connected", {"kind": "no_workspace_owner"}
        )

    def lost(self) -> None:
        self._upstream = self._held = None

    def linked(self, upstream: Upstream, id: str) -> None:
        """An agent has this session now, under a name of its own."""
        self._upstream, self.card.upstream = upstream, id

    async def link(self) -> tuple[Upstream, str, list[Any]]:
        """The agent, started and told of the session again if need be; and what it has to be reminded of."""
        async with self._linking:
            if self._upstream is None or not self._upstream.is_alive:
                upstream = await self._desk.upstream(self.card.agent, self.card.principal)
                await self._take_up(upstream)
                await self._lend(upstream)
                await self._desk.save(self)
            assert self._upstream
            primer, self._primer = self._primer, []
            return self._upstream, self.card.upstream, primer

    async def _take_up(self, upstream: Upstream) -> None:
        """Have an agent go on with the session: it resumes it, loads it, or is told what was said."""
        opening, offers = members(self.card.opening), upstream.offers
        way = "session/resume" if offers.session_capabilities.resume else "session/load"
        if self.card.upstream and (offers.session_capabilities.resume or offers.load_session):
            upstream.adopt(self.card.upstream, self)
            self._is_swallowing = True
            try:
                await upstream.call(way, changed(opening, sessionId=self.card.upstream))
                self.linked(upstream, self.card.upstream)
                return
            except RpcError as exc:  # it has forgotten
                log.info("an agent cannot go on with a session: %s", exc)
                upstream.parties.pop(self.card.upstream, None)
            finally:
                self._is_swallowing = False
        id, _ = await upstream.open("session/new", raw(opening), self)
        self.linked(upstream, id)
        if story := await self._story():
            self._primer = [{"type": "text", "text": f"(The conversation so far, for you to go on with)\n{story}"}]

    async def _lend(self, upstream: Upstream) -> None:
        if upstream.host is None:
            return
        opening = members(self.card.opening)
        further = msgspec.json.decode(opening.get("additionalDirectories", b"[]"), type=list[str])
        try:
            await upstream.host.lend(self.card.upstream, self.card.cwd, additional_directories=further)
        except RpcError:
            raise
        except ConnectionClosed:
            raise
        except Error as exc:
            raise InvalidParams(str(exc)) from None

    async def opened(self, upstream: Upstream) -> None:
        """A new session is ready for its first prompt."""
        await self._lend(upstream)

    async def _story(self) -> str:
        """What was said so far, the latest of it."""
        transcript, at = Transcript(), 0
        while records := await self._desk.engine.read(self.id, at):
            at = records[-1].number
            for record in records:
                if (params := update_params(record.entry.frame)) is not None:
                    transcript.apply(_readable(params))
        lines = []
        for entry in transcript.entries:
            if isinstance(entry, Message) and entry.speaker != "thought":
                lines.append(f"{entry.speaker}: {entry.text}")
            elif isinstance(entry, ToolCallEntry):
                lines.append(f"tool: {entry.title} ({entry.status})")
        return "\n".join(lines)[-PRIMER:]

    async def forward(self, name: str, found: dict[str, Raw]) -> Raw:
        """Ask the agent something about this session."""
        upstream, id, _ = await self.link()
        try:
            return await upstream.call(name, changed(found, sessionId=id))
        except ConnectionClosed as exc:
            raise InternalError(str(exc).partition("; its stderr")[0]) from None

    # People

    def sit(self, visitor: Visitor, *, after: int, echo: bool = False) -> Seat:
        """Give somebody a seat that is told everything after a record; `echo` when also what it said itself."""
        role = self.card.role_of(visitor.name)
        assert role
        seat = Seat(
            self.id,
            self.history,
            self._desk.engine,
            visitor,
            role,
            after=min(after, self.history.durable),
            limits=self._desk.limits,
            evict=self._evict,
            echo_until=self.history.durable if echo else 0,
        )
        self.seats.append(seat)
        self._desk.metrics.viewers.add(1)
        return seat

    def ready(self, seat: Seat) -> None:
        """Begin to tell a seat what happens, and ask it what is open."""
        if seat in self.seats:
            seat.open()
            self.asks.offer_all(seat)
            self._show_presence()
            self._show_queue()

    def rise(self, seat: Seat) -> None:
        """Somebody leaves; what runs goes on."""
        if seat in self.seats:
            self.seats.remove(seat)
            seat.leave()
            self._desk.metrics.viewers.add(-1)
            self._show_presence()

    def share(self, principal: str, role: Role | None) -> None:
        """Give somebody else a part in the session, or take it away."""
        if role is None:
            self.card.roles.pop(principal, None)
        else:
            self.card.roles[principal] = role
        for seat in [seat for seat in self.seats if seat.visitor.name == principal]:
            if (now := self.card.role_of(principal)) is None:
                seat.notify("_dragoman/session/detached", {"reason": "it is no longer shared with you"})
                self.rise(seat)
            else:
                seat.role = now
        self._show_presence()

    def _evict(self, seat: Seat) -> None:
        if seat not in self.seats:
            return
        if not seat.visitor.connection.closed:
            self._desk.metrics.evictions.add()
            seat.notify("_dragoman/session/detached", {"reason": "you do not keep up", "after": seat.cursor})
            seat.visitor.connection.hang_up()
        self.rise(seat)

    def _show_presence(self) -> None:
        people: dict[str, dict[str, Any]] = {}
        for seat in self.seats:
            person = people.setdefault(
                seat.visitor.name, {"principal": seat.visitor.name, "role": seat.role, "seats": 0}
            )
            person["seats"] += 1
        for seat in self.seats:
            seat.notify("_dragoman/presence", {"people": list(people.values())})

    def _show_queue(self) -> None:
        waiting = [{"prompt": turn.key, "principal": turn.principal} for turn in self.turns.waiting]
        running = self.turns.running
        shown = {"running": running and {"prompt": running.key, "principal": running.principal}, "waiting": waiting}
        for seat in self.seats:
            seat.notify("_dragoman/queue", shown)

    # Its end

    def check_room(self) -> None:
        if self.size > self._desk.limits.session_bytes:
            raise exceeded("session_bytes", self._desk.limits.session_bytes)

    async def close(self, *, is_last: bool = False) -> None:
        """End what runs, write everything down, and let everybody go; the agent need not know when it ends, too."""
        await self.turns.close()
        self.asks.cancel_all()
        await self.history.close()
        for seat in list(self.seats):
            self.rise(seat)
        if self._upstream:
            self._upstream.parties.pop(self.card.upstream, None)
            if not is_last and self._upstream.is_alive and self._upstream.offers.session_capabilities.close:
                await self._close_upstream(self._upstream)
        self._upstream = None

    async def _close_upstream(self, upstream: Upstream) -> None:
        try:
            async with asyncio.timeout(LENDING_TIMEOUT):
                if upstream.host:
                    upstream.host.agent.offers = upstream.offers
                    await upstream.host.close_session(self.card.upstream)
                else:
                    await upstream.call("session/close", raw({"sessionId": self.card.upstream}))
        except (Error, TimeoutError) as exc:
            log.info("an agent did not close a session: %s", exc)


def _readable(params: Raw) -> Any:
    try:
        return msgspec.json.decode(params, type=s.SessionNotification).update
    except msgspec.DecodeError:
        return s.AgentThoughtChunk(content=s.TextContent(text=""))


def may(role: Role | None, needed: Role) -> bool:
    return role is not None and RANK[role] >= RANK[needed]
