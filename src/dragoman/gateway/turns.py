"""The prompts of one session: first come, first served, one at a time, each with exactly one outcome.

A prompt is known by a key, its client's or ours.  One that is sent again never runs again: whoever sends it gets
the outcome of the first.  A turn belongs to the session, not to the connection it came over: who hangs up cancels
nothing.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import ConnectionClosed, Error, InternalError, InvalidParams, RpcError
from .asks import Asks
from .desk import Desk
from .history import History
from .limits import exceeded
from .logs import record
from .records import (
    PROMPT,
    Ended,
    Problem,
    Prompted,
    changed,
    meta_value,
    own_frame,
    raw,
    read_own,
    update_frame,
)
from .seat import Visitor
from .summary import Summary
from .tracing import TRACE, describe, onward, span
from .upstream import Upstream

log = logging.getLogger("dragoman")

MAX_KEY = 200
CANCELLED = raw({"stopReason": "cancelled"})
LAST_WORDS = 10.0  # seconds for an agent that was told to stop

Ready = Callable[[], Awaitable[tuple[Upstream, str, Sequence[Any]]]]


class Turn:
    """One prompt from when it was accepted to its outcome."""

    def __init__(self, key: str, found: dict[str, Raw], visitor: Visitor) -> None:
        self.key, self.found = key, found
        self.principal, self.client = visitor.name, visitor.client
        self.outcome: asyncio.Future[tuple[int, Ended]] = asyncio.get_running_loop().create_future()
        self.is_cancelled = self.is_ended = False
        self.number = 0  # of the record that says it was accepted
        self.began = time.monotonic()
        self.is_answered = False  # something was heard of it


class Turns:
    """Takes prompts and runs them in order; `ready` leads to the agent, `moved` is called when the queue has."""

    def __init__(
        self,
        session: str,
        history: History,
        summary: Summary,
        asks: Asks,
        desk: Desk,
        *,
        ready: Ready,
        moved: Callable[[], None],
    ) -> None:
        self.running: Turn | None = None
        self._session, self._history, self._summary, self._asks = session, history, summary, asks
        self._engine, self._limits, self._metrics = desk.engine, desk.limits, desk.metrics
        self._ready, self._moved = ready, moved
        self._queue: deque[Turn] = deque()
        self._open: dict[str, Turn] = {}
        self._worker: asyncio.Task[None] | None = None
        self._upstream: tuple[Upstream, str] | None = None
        self._announcing: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        return bool(self._open)

    @property
    def waiting(self) -> list[Turn]:
        return list(self._queue)

    async def prompt(self, key: str, found: dict[str, Raw], visitor: Visitor) -> tuple[int, Ended]:
        """Have a prompt answered: where its outcome stands in the log, and what it is."""
        turn = self._open.get(key)
        if turn is None and (number := self._summary.ended.get(key)):
            return number, await self._outcome(number)
        turn = turn or self._accept(key, found, visitor)
        return await asyncio.shield(turn.outcome)

    def _accept(self, key: str, found: dict[str, Raw], visitor: Visitor) -> Turn:
        if len(self._queue) >= self._limits.queue:
            raise exceeded("queue", self._limits.queue)
        _content(found)
        prompted = Prompted(key)
        turn = Turn(key, found, visitor)
        turn.number = self._history.add("client", lambda _: own_frame(prompted), visitor.name, visitor.client)
        self._open[key] = turn
        self._queue.append(turn)
        self._moved()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="turns")
        return turn

    async def _outcome(self, number: int) -> Ended:
        ended = read_own((await record(self._engine, self._session, number)).entry.frame)
        assert isinstance(ended, Ended)
        return ended

    async def finished(self) -> None:
        """Wait until no prompt runs or waits."""
        while self._open:
            await asyncio.wait([turn.outcome for turn in self._open.values()])

    # Cancelling

    def cancel(self, visitor: Visitor) -> None:
        """Cancel the turn that runs, and what this client has waiting."""
        for turn in list(self._open.values()):
            if (turn.principal, turn.client) == (visitor.name, visitor.client) and turn is not self.running:
                self._drop(turn)
        if self.running:
            self._stop(self.running)

    def cancel_all(self) -> None:
        """Cancel what runs and what waits."""
        for turn in list(self._queue):
            self._drop(turn)
        if self.running:
            self._stop(self.running)

    def cancel_one(self, key: str) -> bool:
        """Cancel one prompt, waiting or running; false when there is none."""
        turn = self._open.get(key)
        if turn is None:
            return False
        if turn is self.running:
            self._stop(turn)
        else:
            self._drop(turn)
        return True

    def _drop(self, turn: Turn) -> None:
        if turn in self._queue:  # else it has just ended
            self._queue.remove(turn)
            self._end(turn, Ended(turn.key, CANCELLED))
            self._moved()

    def _stop(self, turn: Turn) -> None:
        turn.is_cancelled = True
        self._asks.cancel_all()
        if self._upstream:
            upstream, id = self._upstream
            upstream.note("session/cancel", raw({"sessionId": id}))

    async def close(self) -> None:
        """End what runs and what waits: nobody is going to do it here."""
        if self._worker:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        while self._queue:
            self._end(self._queue.popleft(), Ended("", error=interruption("the gateway stopped"), interrupted=True))
        if self._announcing:
            await asyncio.wait(self._announcing)

    # Running

    async def _work(self) -> None:
        try:
            while self._queue:
                self.running = turn = self._queue.popleft()
                self._moved()
                with span("turn", {"dragoman.session": self._session}, _trace(turn.found)):
                    ended = await self._run(turn)
                    describe(outcome=ended.outcome)
                self._upstream = self.running = None
                self._end(turn, ended)
            self._moved()
        finally:
            self._worker = None

    async def _run(self, turn: Turn) -> Ended:
        try:
            return Ended(turn.key, await self._ask_agent(turn))
        except ConnectionClosed as exc:
            return await self._interrupt(turn, str(exc).partition("; its stderr")[0])
        except asyncio.CancelledError:
            self._end(turn, await self._interrupt(turn, "the gateway stopped"))
            raise
        except RpcError as exc:
            return Ended(turn.key, error=Problem.of(exc))
        except Error as exc:  # the agent does not start, the log cannot be written
            return Ended(turn.key, error=Problem.of(InternalError(str(exc))))

    async def _ask_agent(self, turn: Turn) -> Raw:
        await self._history.settled(turn.number)
        upstream, id, primer = await self._ready()
        self._upstream = upstream, id
        if turn.is_cancelled:
            return CANCELLED
        blocks = _content(turn.found)
        for block in blocks:
            chunk = {"sessionId": raw(""), "update": raw({"sessionUpdate": "user_message_chunk", "content": block})}
            self._tell("client", chunk, turn.principal, turn.client)
        await self._history.settled()
        if turn.is_cancelled:  # the agent was told so before it knew of the turn
            return CANCELLED
        found = {**turn.found, "prompt": raw([*primer, *blocks])} if primer else turn.found
        asking = asyncio.ensure_future(upstream.call("session/prompt", changed(found, onward(), sessionId=id)))
        try:
            await asyncio.sleep(0)  # now it is on its way
            if turn.is_cancelled:
                self._stop(turn)
            await asyncio.wait([asking], timeout=self._limits.turn_seconds)
            if not asking.done():
                self._stop(turn)
                await asyncio.wait([asking], timeout=LAST_WORDS)
                raise exceeded("turn_seconds", self._limits.turn_seconds)
            return asking.result()
        finally:
            asking.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asking

    async def _interrupt(self, turn: Turn, why: str) -> Ended:
        """The agent is gone in the middle: say so of everything that was under way, and run nothing again."""
        self._asks.cancel_all()
        with contextlib.suppress(Error):  # a log that takes no more is said elsewhere
            await self._history.settled()
            for failure in self._summary.failures():
                self._tell("gateway", failure)
        return Ended(turn.key, error=interruption(why), interrupted=True)

    def _tell(self, origin: Any, found: dict[str, Raw], principal: str = "", client: str = "") -> None:
        self._history.add(origin, lambda number: update_frame(found, self._session, number), principal, client)

    def heard(self) -> None:
        """The agent has told something of what it does."""
        if self.running and not self.running.is_answered:
            self.running.is_answered = True
            self._metrics.first_update_seconds.observe(time.monotonic() - self.running.began)

    def _end(self, turn: Turn, ended: Ended) -> None:
        """Write an outcome down; whoever waits hears of it once it is durable."""
        ended.prompt = turn.key
        if turn.is_ended:
            return
        turn.is_ended = True
        self._metrics.turns.add(1, ended.outcome)
        self._metrics.turn_seconds.observe(time.monotonic() - turn.began)
        try:
            number = self._history.add("gateway", lambda _: own_frame(ended))
        except Error as exc:
            self._open.pop(turn.key, None)
            turn.outcome.set_exception(InternalError(str(exc)))
            turn.outcome.exception()
            return
        announcing = asyncio.create_task(self._announce(turn, number, ended), name="outcome")
        self._announcing.add(announcing)
        announcing.add_done_callback(self._announcing.discard)

    async def _announce(self, turn: Turn, number: int, ended: Ended) -> None:
        try:
            await self._history.settled(number)
            turn.outcome.set_result((number, ended))
        except Error as exc:
            turn.outcome.set_exception(InternalError(f"the outcome could not be kept: {exc}"))
            turn.outcome.exception()  # nobody may be waiting
        finally:
            self._open.pop(turn.key, None)


def key_of(found: dict[str, Raw], visitor: Visitor) -> str:
    """What a prompt is known by: what its client calls it, among all that the same principal ever sent."""
    key = meta_value(found, PROMPT)
    if key is None:
        key = secrets.token_hex(12)
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise InvalidParams(f"{PROMPT} has to be a string of at most {MAX_KEY} characters")
    return f"{owner(visitor.name)}{key}"


def owner(principal: str) -> str:
    """How the keys of somebody's prompts begin, and nobody else's."""
    return principal.replace("%", "%25").replace("/", "%2F") + "/"


def interruption(why: str) -> Problem:
    return Problem(-32603, f"the turn was interrupted: {why}", {"kind": "turn_interrupted"})


def _trace(found: dict[str, Raw]) -> dict[str, str]:
    """Which trace of its client's a prompt belongs to."""
    told = {name: meta_value(found, name) for name in TRACE}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _content(found: dict[str, Raw]) -> list[Raw]:
    try:
        return msgspec.json.decode(found["prompt"], type=list[Raw])
    except (KeyError, msgspec.DecodeError):
        raise InvalidParams("prompt has to be a list of content blocks") from None


def answer(ended: Ended) -> Raw:
    """An outcome as the answer to its request; raises it when it is an error."""
    if ended.error:
        raise ended.error.error()
    return ended.result
