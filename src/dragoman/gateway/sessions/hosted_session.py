"""A session that several people share: its log, its agent, its turns, its questions, the seats at it.

What the agent says is written down and then told to every seat.  Who holds the session's lease writes; whoever
finds that somebody else does lets go of the session at once.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Raw

from ...connection import Connection
from ...errors import Error, InternalError, McpServerUnavailable, ResourceNotFound, RpcError
from ...proxy.relaying import relayed
from ...rpc import Method
from ..access.quotas import exceeded
from ..agents.audience import client_teller
from ..agents.introductions import Introduction
from ..agents.mcp_servers import Ask, SessionServers
from ..agents.upstream import Upstream
from ..log import logs
from ..log.engine import Fenced, Lease, LogEntry
from ..log.logs import records
from ..log.records import (
    Answered,
    PromptEnded,
    changed,
    members,
    optional,
    own_frame,
    raw,
    text,
    update_frame,
    update_params,
)
from ..log.summary import LogSummary
from ..operations.workers import owned
from .agent_link import AgentLink
from .fitting import Fit
from .history import History
from .outcomes import LOST
from .presence import show_presence, show_queue, tell_all
from .prompt_queue import PromptQueue
from .questions import CANCELLED, Asks
from .services import SessionServices
from .session_record import SessionRecord
from .viewer import Role, Viewer, Visitor

log = logging.getLogger("dragoman")

T = TypeVar("T")

HELD_AT = 4 * 1024 * 1024  # bytes not yet durable, before an agent has to wait
LENDING_TIMEOUT = 30.0
ASKED_AGAIN = ("fs/read_text_file", "terminal/output", "terminal/wait_for_exit")  # of a client that came back
LAST_WORDS = 2.0  # seconds for those at a session that is closed to take what they have not been told yet
NAMES = ("sessionId", "senderSessionId", "recipientSessionId")  # of sessions, in updates about others
MAX_CHILDREN = 1000  # sessions begun by the agent of one; of more nothing is told
LOOK_AGAIN = 1.0  # seconds at least between two looks whether a question still waits for somebody


class HostedSession:
    """One session; `recover` one that was there before, before anybody sits down."""

    def __init__(
        self,
        id: str,
        card: SessionRecord,
        lease: Lease,
        desk: SessionServices,
        *,
        last: int = 0,
        kept: Iterable[bytes] = (),
    ) -> None:
        self.id, self.card = id, card
        self.summary = LogSummary.read(kept, last)
        self.checkpoint = 0  # the record after which the older of the kept summaries is
        self.is_unsaved = False  # what is kept of it beside its log is no longer all
        self.seats: list[Viewer] = []
        self._desk = desk
        self.history = History(desk.engine, lease, last, desk.metrics, self._publish, self._broke)
        self.servers = SessionServers(id, card)
        self.link = AgentLink(id, card, self, self.history, desk)
        self.asks = Asks(id, self.history, lambda: list(self.seats), desk.metrics, lambda: self.turns.is_stopping)
        self.turns = PromptQueue(
            id, self.history, self.summary, self.asks, desk, link=self.link, moved=self._show_queue
        )
        self._children: set[str] = set()  # sessions that the agent has begun from this one
        self.told_early = 0  # the last record from before the agent had opened the session
        self._held: Upstream | None = None
        self._came = asyncio.Event()  # somebody has sat down
        self._alone: asyncio.TimerHandle | None = None  # runs while nobody is here
        self._settling: asyncio.Task[None] | None = None  # finds out what became of prompts when the log broke
        self._mending = asyncio.Lock()
        self._turn = asyncio.Lock()  # of whoever asks a client next

    # The log

    async def recover(self) -> None:
        """Read on in the log, and give what was under way when its last writer stopped its one outcome."""
        async for record in records(self._desk.engine, self.id, self.summary.at):
            self.summary.add(record.number, [record.entry])
            self.is_unsaved = True
        for asked in self.summary.asks.values():
            self._remember(Answered(asked.ask, CANCELLED[asked.method]))
        if self.summary.prompts:
            for failure in self.summary.failures():
                self._tell(failure)
        for key in self.summary.prompts:
            self._remember(PromptEnded(key, error=LOST, interrupted=True))
            self._desk.metrics.turns.add(1, "interrupted")
        await self.history.settled()

    async def take_over(self, other: "HostedSession") -> None:
        """Begin with all that was told in another session."""
        async for record in records(self._desk.engine, other.id):
            if (params := update_params(record.entry.frame)) is not None:
                entry, found = record.entry, members(params)
                frame = functools.partial(update_frame, found, self.id)
                self.history.add(entry.origin, frame, entry.principal, entry.client)
            if self.history.waiting > HELD_AT:
                await self.history.settled()
        await self.history.settled()

    def _remember(self, record: Answered | PromptEnded) -> None:
        self.history.add("gateway", lambda _: own_frame(record))

    def _tell(self, found: dict[str, Raw]) -> None:
        self.history.add("gateway", lambda number: update_frame(found, self.id, number))

    def _publish(self, first: int, entries: Sequence[LogEntry]) -> None:
        self.summary.add(first, entries)
        self.card.updated, self.is_unsaved = time.time(), True
        for seat in list(self.seats):
            seat.offer(first, entries)
        if self.history.waiting < HELD_AT // 4:
            self._let_speak()

    def _broke(self) -> None:
        """The log takes no more: nobody is told anything that is not in it."""
        log.error("the log of session %s is broken: %s", self.id, self.history.broken)
        self._let_speak()
        self.asks.cancel_all()
        self._settling = owned(self.turns.settle_broken(), "outcomes of a broken log", self._cannot_settle)
        if isinstance(self.history.broken, Fenced):
            self._desk.let_go(self)

    def _cannot_settle(self, why: Exception) -> None:
        for turn in list(self.turns.outcomes.open.values()):
            self.turns.outcomes.lose(turn)

    @property
    def is_sound(self) -> bool:
        """Whether its log can be written, and has the outcomes of all prompts that ended."""
        return not self.history.broken and not self._mending.locked()

    async def mend(self, lease: Lease) -> None:
        """Go on after the log broke, from what it really holds; everybody who is here stays."""
        async with self._mending:
            if self._settling:
                await asyncio.wait([self._settling])
            self.history.mend(lease, await self._desk.engine.last(self.id))
            try:
                await self.recover()
            finally:
                for seat in list(self.seats):
                    seat.catch_up()

    async def commands(self, after: int) -> Raw | None:
        """The commands there are, for a client that is told only what comes after a record."""
        if not 0 < self.summary.commands <= after:
            return None
        return await self.update(self.summary.commands)

    async def update(self, number: int) -> Raw:
        """The update that stands in the log at a number."""
        found = update_params((await logs.record(self._desk.engine, self.id, number)).entry.frame)
        assert found is not None  # as whoever asks has made sure
        return found

    def _let_speak(self) -> None:
        if self._held:
            held, self._held = self._held, None
            held.connection.resume()

    # The agent, whose party this is

    def heard(self, params: dict[str, Raw]) -> None:
        if self.link.is_swallowing or self.history.broken or self.turns.is_stale or self.turns.is_over:
            return
        self.turns.heard()
        params = self._named(params)
        session = self._public(params)
        self.history.add("agent", lambda number: update_frame(params, session, number))
        if session == self.id:
            self._follow(params.get("update", raw({})))
        if self.history.waiting > HELD_AT and self._held is None and self.link.upstream:
            self._held = self.link.upstream
            self._held.connection.hold()

    @property
    def has_begun(self) -> bool:
        """Whether its agent has begun others from it."""
        return bool(self._children)

    def began(self, id: str) -> bool:
        """Whether its agent has begun this session, and is still there."""
        return id in self._children and self.link.upstream is not None and id in self.link.upstream.parties

    def _public(self, params: dict[str, Raw]) -> str:
        """What clients call the session a message is about: this one, or one that its agent has begun from it."""
        named = text(params, "sessionId") if self._children else None
        return named if named in self._children else self.id

    def _named(self, params: dict[str, Raw]) -> dict[str, Raw]:
        """An update about sessions that the agent has begun, with this one called as clients do."""
        data = bytes(params.get("update", b""))
        if b'"subagent_update"' not in data and b'"session_message' not in data:
            return params
        update = optional(params, "update")
        if text(update, "sessionUpdate") == "subagent_update" and self.link.upstream:
            child = text(update, "sessionId")
            if child and child not in self.link.upstream.parties and len(self._children) < MAX_CHILDREN:
                self._children.add(child)
                self.link.upstream.adopt(child, self)
        own, ours = raw(self.card.upstream), raw(self.id)
        shown = {name: ours if value == own and name in NAMES else value for name, value in update.items()}
        return {**params, "update": raw(shown)}

    def _follow(self, update: Raw) -> None:
        """Keep what a client that loads the session is to be told of its modes and options."""
        data = bytes(update)
        if b"_mode_update" not in data and b"_option" not in data and b"_info_update" not in data:
            return
        found = members(update)
        if text(found, "sessionUpdate") == "session_info_update" and "title" in found:
            self.card.title = None if bytes(found["title"]) == b"null" else text(found, "title")
        if "currentModeId" in found:
            self.set_state(mode=found["currentModeId"])
        elif "configOptions" in found:
            self.set_state(options=found["configOptions"])

    def set_state(self, *, mode: Raw | None = None, options: Raw | None = None) -> None:
        state = members(self.card.state)
        if mode is not None and (modes := optional(state, "modes")):
            state["modes"] = changed(modes, currentModeId=mode)
        if options is not None:
            state["configOptions"] = options
        self.card.state = raw(state)

    def introduction(self) -> Introduction:
        """What the agent is to be told of the clients here.

        It stays what it was while a client like that is here, or nobody; else it is what the first said who may
        prompt.
        """
        known = [seat.visitor.introduction for seat in self.seats if seat.may_edit]
        return known[0] if known and self.card.introduction not in known else self.card.introduction

    async def asked(self, method: str, params: dict[str, Raw]) -> Raw:
        return await self.asks.put(method, {**params, "sessionId": raw(self._public(params))})

    def opened(self) -> None:
        """The agent has opened the session: what it told before that was told before its answer."""
        self.told_early = self.history.last

    def told(self, method: str, params: Raw) -> None:
        """The agent tells the clients what is no update: each hears it in its place among the updates."""
        found = members(params)
        passed = changed(found, sessionId=self._public(found)) if "sessionId" in found else params
        for seat in list(self.seats):
            if seat.fit.hears(method):
                seat.pass_on(self.history.last, method, passed)

    async def requested(self, method: str, params: dict[str, Raw]) -> Raw:
        """Have the client whose prompt runs answer what the agent asks, or else the first that may prompt."""
        able = [seat for seat in self.seats if seat.may_edit and not seat.visitor.connection.closed]
        if not able or self.link.upstream is None:
            raise InternalError("no client is at this session", {"kind": "no_client"})
        seat = next((seat for seat in able if self.turns.is_of(seat.visitor)), able[0])
        asked = changed(params, sessionId=self._public(params))
        source, client = self.link.upstream.connection, seat.visitor.connection
        return await self._in_turn(seat, relayed(source, client, Method(method, Raw, Raw), asked))

    async def _in_turn(self, seat: Viewer, asking: Coroutine[Any, Any, Raw]) -> Raw:
        """Ask a client once it has been told what was told before, and asked what was asked before."""
        try:
            async with self._turn:
                await self.in_order(seat)
                answer = asyncio.ensure_future(asking)
        except BaseException:
            asking.close()
            raise
        return await answer

    async def in_order(self, seat: Viewer) -> None:
        """Wait until a client has been told what the agent told before this."""
        number = self.history.last
        await self.history.settled(number)
        await seat.reached(number)

    async def served(self, alias: str, ask: Ask) -> Raw:
        """Ask a client for an MCP server that it has; while it is away, wait a little."""
        client, id = await self._present(lambda: self.servers.find(alias, self.seats), McpServerUnavailable())
        return await self.in_turn(client.connection, ask(client.servers, id))

    async def in_turn(self, client: Connection, asking: Coroutine[Any, Any, Raw]) -> Raw:
        seat = self._seat_of(client)
        return await (self._in_turn(seat, asking) if seat else asking)

    def tell_client(self, client: Connection, name: str, params: Raw) -> None:
        if seat := self._seat_of(client):
            seat.pass_on(self.history.last, name, params)
        else:
            client_teller(client)(name, params)

    def _seat_of(self, client: Connection) -> Viewer | None:
        """Where a client sits; nowhere yet while it opens the session."""
        return next((seat for seat in self.seats if seat.visitor.connection is client), None)

    async def lent(self, method: str, params: dict[str, Raw]) -> Raw:
        """Ask the client that owns the workspace for what only it has; while it is away, wait a little."""
        timeout = None if method.endswith("wait_for_exit") else LENDING_TIMEOUT
        asked = Method(method, Raw, Raw, timeout=timeout)
        while True:
            seat = await self._owner(method)
            owner = seat.visitor
            asking = owner.connection.call(asked, changed(params, sessionId=self._public(params)))
            try:
                return await self._in_turn(seat, asking)
            except RpcError as exc:
                raise RpcError.of(exc.code, exc.message, exc.data) from None
            except Error as exc:
                if owner.connection.closed and method in ASKED_AGAIN:
                    continue
                raise InternalError(f"the client that owns the workspace did not answer: {exc}") from None

    async def _owner(self, method: str) -> Viewer:
        def find() -> Viewer | None:
            able = (seat for seat in self.seats if seat.role == "admin" and seat.visitor.lends(method))
            return next((seat for seat in able if not seat.visitor.connection.closed), None)

        why = "no client that owns this session's workspace is connected"
        return await self._present(find, InternalError(why, {"kind": "no_workspace_owner"}))

    async def _present(self, find: Callable[[], T | None], missing: RpcError) -> T:
        """What somebody who is here has, or who comes within a while."""
        try:
            async with asyncio.timeout(self._desk.limits.owner_seconds):
                while (found := find()) is None:
                    self._came.clear()
                    await self._came.wait()
                return found
        except TimeoutError:
            raise missing from None

    def lost(self) -> None:
        self.link.upstream = self._held = None

    # People

    def sit(self, visitor: Visitor, *, after: int, echo: bool = False, most: Role = "admin") -> Viewer:
        """Give somebody a seat that is told everything after a record; `echo` when also what it said itself.

        The seat has its principal's role in the session, or a lesser one if it wants `most` that.
        """
        role = self.card.role_of(visitor.name)
        if role is None:  # it was taken away a moment ago
            raise ResourceNotFound("Session not found", {"sessionId": self.id})
        if self._alone:
            self._alone.cancel()
            self._alone = None
        seat = Viewer(
            self.id,
            self.history,
            self._desk.engine,
            visitor,
            role,
            most=most,
            after=min(after, self.history.durable),
            limits=self._desk.limits,
            fit=self._fit(visitor),
            evict=self._evict,
            echo_until=self.history.durable if echo else 0,
        )
        self.seats.append(seat)
        self._desk.metrics.viewers.add(1)
        self._replace_lost(visitor)
        return seat

    def _fit(self, visitor: Visitor) -> Fit:
        """What a client can take of this session; where somebody else lends terminals it may not know any."""
        of_host = self._desk.processes.agents[self.card.agent].workspace == "host"
        are_lent = of_host or self.card.introduction.offers.terminal
        return Fit(visitor.offers, has_terminals=visitor.offers.terminal or not are_lent)

    def _replace_lost(self, visitor: Visitor) -> None:
        """A client that comes back takes over the seat it had on a connection that nobody has missed yet."""
        known = (visitor.name, visitor.client)
        for seat in [seat for seat in self.seats if seat.visitor is not visitor]:
            if (seat.visitor.name, seat.visitor.client) == known:
                self.rise(seat)
                seat.visitor.connection.hang_up()

    def ready(self, seat: Viewer, *, asks: bool = True) -> None:
        """Begin to tell a seat what happens, and ask it what is open."""
        if seat in self.seats:
            self._came.set()
            seat.open()
            if asks:
                self.asks.offer_all(seat)
            self._show_presence()
            self._show_queue()

    def rise(self, seat: Viewer) -> None:
        """Somebody leaves; what runs goes on, unless it is not to go on without anybody."""
        if seat in self.seats:
            self.seats.remove(seat)
            seat.leave()
            self.servers.withdraw(seat.visitor)
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
                self._send_away(seat, "it is no longer shared with you")
            else:
                seat.role = role
                (self.asks.offer_all if seat.may_edit else self.asks.take_away)(seat)
        self._show_presence()

    def _send_away(self, seat: Viewer, why: str) -> None:
        seat.notify("_dragoman/session/detached", {"reason": why, "after": seat.cursor})
        self.rise(seat)

    def _evict(self, seat: Viewer) -> None:
        if seat not in self.seats:
            return
        if not seat.visitor.connection.closed:
            self._desk.metrics.evictions.add()
            self._send_away(seat, "you do not keep up")
            seat.visitor.connection.hang_up()
        self.rise(seat)

    def _show_presence(self) -> None:
        show_presence(self.seats)

    def _show_queue(self) -> None:
        show_queue(self.seats, self.turns.running, self.turns.waiting)

    # Its end

    @property
    def is_idle(self) -> bool:
        return not self.seats and not self.turns.is_busy and not self.asks

    def check_room(self) -> None:
        if self.summary.size > self._desk.limits.session_bytes:
            raise exceeded("session_bytes", self._desk.limits.session_bytes)

    async def close(self, *, is_last: bool = False) -> None:
        """End what runs, write everything down, and let everybody go; the agent need not know when it ends, too."""
        async with self._mending:
            await self.turns.close(is_last=is_last)
        self.asks.cancel_all()
        await self.history.close()
        if self._settling:
            await asyncio.wait([self._settling])
        await tell_all(self.seats, self.history.durable, LAST_WORDS)
        for seat in list(self.seats):
            self._send_away(seat, "the gateway stopped" if is_last else "the session was closed")
        if self._alone:
            self._alone.cancel()
        await self.link.close(is_told=not is_last)
