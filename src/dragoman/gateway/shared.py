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
from msgspec import Raw

from ..errors import Error, InternalError, RpcError
from ..rpc import Method
from .asks import CANCELLED, Asks
from .card import Card
from .desk import Desk
from .engine import Entry, Lease
from .history import History
from .limits import exceeded
from .link import Link
from .logs import records
from .records import Answered, Ended, changed, members, own_frame, raw, text, update_frame
from .seat import Role, Seat, Visitor
from .summary import Summary
from .turns import Turns, interruption
from .upstream import Upstream

log = logging.getLogger("dragoman")

HELD_AT = 4 * 1024 * 1024  # bytes not yet durable, before an agent has to wait
LENDING_TIMEOUT = 30.0
LOOK_AGAIN = 1.0  # seconds at least between two looks whether a question still waits for somebody


class Shared:
    """One session; `recover` one that was there before, before anybody sits down."""

    def __init__(
        self, id: str, card: Card, lease: Lease, desk: Desk, *, last: int = 0, summary: bytes | None = None
    ) -> None:
        self.id, self.card = id, card
        self.summary = Summary.read(summary, last)
        self.is_unsaved = False  # what is kept of it beside its log is no longer all
        self.seats: list[Seat] = []
        self._desk = desk
        self.history = History(desk.engine, lease, last, desk.metrics, self._publish, self._broke)
        self.link = Link(id, card, self, self.history, desk)
        self.asks = Asks(id, self.history, lambda: list(self.seats), desk.metrics)
        self.turns = Turns(
            id, self.history, self.summary, self.asks, desk, ready=self.link.ready, moved=self._show_queue
        )
        self._held: Upstream | None = None
        self._came = asyncio.Event()  # somebody has sat down
        self._alone: asyncio.TimerHandle | None = None  # runs while nobody is here

    # The log

    async def recover(self) -> None:
        """Read on in the log, and give what was under way when its last writer stopped its one outcome."""
        async for record in records(self._desk.engine, self.id, self.summary.at):
            self.summary.add(record.number, [record.entry])
        for asked in self.summary.asks.values():
            self._remember(Answered(asked.ask, CANCELLED[asked.method]))
        if self.summary.prompts:
            for failure in self.summary.failures():
                self._tell(failure)
        for key in self.summary.prompts:
            self._remember(Ended(key, error=interruption("the gateway was restarted"), interrupted=True))
            self._desk.metrics.turns.add(1, "interrupted")
        await self.history.settled()

    def _remember(self, record: Answered | Ended) -> None:
        self.history.add("gateway", lambda _: own_frame(record))

    def _tell(self, found: dict[str, Raw]) -> None:
        self.history.add("gateway", lambda number: update_frame(found, self.id, number))

    def _publish(self, first: int, entries: Sequence[Entry]) -> None:
        self.summary.add(first, entries)
        self.card.updated, self.is_unsaved = time.time(), True
        for seat in list(self.seats):
            seat.offer(first, entries)
        if self.history.waiting < HELD_AT // 4:
            self._let_speak()

    def _broke(self) -> None:
        """The log takes no more: nobody is told anything that is not in it."""
        log.error("session %s is let go: %s", self.id, self.history.broken)
        self._let_speak()
        self._desk.let_go(self)

    def _let_speak(self) -> None:
        if self._held:
            held, self._held = self._held, None
            held.connection.resume()

    # The agent, whose party this is

    def heard(self, params: dict[str, Raw]) -> None:
        if self.link.is_swallowing or self.history.broken:
            return
        self.turns.heard()
        self._follow(params.get("update", raw({})))
        self.history.add("agent", lambda number: update_frame(params, self.id, number))
        if self.history.waiting > HELD_AT and self._held is None and self.link.upstream:
            self._held = self.link.upstream
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
        """Ask the client that owns the workspace for what only it has; while it is away, wait a little."""
        owner = await self._owner(method)
        timeout = None if method.endswith("wait_for_exit") else LENDING_TIMEOUT
        asked = Method(method, Raw, Raw, timeout=timeout)
        try:
            answer: Raw = await owner.connection.call(asked, changed(params, sessionId=self.id))
            return answer
        except RpcError as exc:
            raise RpcError.of(exc.code, exc.message, exc.data) from None
        except Error as exc:
            raise InternalError(f"the client that owns the workspace did not answer: {exc}") from None

    async def _owner(self, method: str) -> Visitor:
        try:
            async with asyncio.timeout(self._desk.limits.owner_seconds):
                while True:
                    for seat in self.seats:
                        if seat.role == "admin" and seat.visitor.lends(method):
                            return seat.visitor
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            why = "no client that owns this session's workspace is connected"
            raise InternalError(why, {"kind": "no_workspace_owner"}) from None

    def lost(self) -> None:
        self.link.upstream = self._held = None

    # People

    def sit(self, visitor: Visitor, *, after: int, echo: bool = False, most: Role = "admin") -> Seat:
        """Give somebody a seat that is told everything after a record; `echo` when also what it said itself.

        The seat has its principal's role in the session, or a lesser one if it wants `most` that.
        """
        role = self.card.role_of(visitor.name)
        assert role
        if self._alone:
            self._alone.cancel()
            self._alone = None
        seat = Seat(
            self.id,
            self.history,
            self._desk.engine,
            visitor,
            role,
            most=most,
            after=min(after, self.history.durable),
            limits=self._desk.limits,
            evict=self._evict,
            echo_until=self.history.durable if echo else 0,
        )
        self.seats.append(seat)
        self._desk.metrics.viewers.add(1)
        return seat

    def ready(self, seat: Seat, *, asks: bool = True) -> None:
        """Begin to tell a seat what happens, and ask it what is open."""
        if seat in self.seats:
            self._came.set()
            seat.open()
            if asks:
                self.asks.offer_all(seat)
            self._show_presence()
            self._show_queue()

    def rise(self, seat: Seat) -> None:
        """Somebody leaves; what runs goes on, unless it is not to go on without anybody."""
        if seat in self.seats:
            self.seats.remove(seat)
            seat.leave()
            self._desk.metrics.viewers.add(-1)
            self._show_presence()
            if not self.seats and (patience := self.card.detached.cancel_after) is not None:
                self._alone = asyncio.get_running_loop().call_later(patience, self._abandon, patience)

    def _abandon(self, patience: float) -> None:
        """Nobody has come back: cancel everything, unless a question waits for somebody to come."""
        self._alone = None
        if self.card.detached.unless_asking and self.asks:
            again = max(patience, LOOK_AGAIN)
            self._alone = asyncio.get_running_loop().call_later(again, self._abandon, patience)
        else:
            self.turns.cancel_all()

    def share(self, principal: str, role: Role | None) -> None:
        """Give somebody else a part in the session, or take it away."""
        if role is None:
            self.card.roles.pop(principal, None)
        else:
            self.card.roles[principal] = role
        for seat in [seat for seat in self.seats if seat.visitor.name == principal]:
            if role is None:
                seat.notify("_dragoman/session/detached", {"reason": "it is no longer shared with you"})
                self.rise(seat)
            else:
                seat.role = role
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

    @property
    def is_idle(self) -> bool:
        return not self.seats and not self.turns.is_busy and not self.asks

    def check_room(self) -> None:
        if self.summary.size > self._desk.limits.session_bytes:
            raise exceeded("session_bytes", self._desk.limits.session_bytes)

    async def close(self, *, is_last: bool = False) -> None:
        """End what runs, write everything down, and let everybody go; the agent need not know when it ends, too."""
        await self.turns.close()
        self.asks.cancel_all()
        await self.history.close()
        for seat in list(self.seats):
            self.rise(seat)
        if self._alone:
            self._alone.cancel()
        await self.link.close(is_told=not is_last)
