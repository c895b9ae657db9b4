"""The prompts of one session: first come, first served, one at a time, each with exactly one outcome.

A prompt has a key, from its client or from us.  A prompt that is sent again never runs again: its sender gets the
outcome of the first.  A turn belongs to the session, not to its connection: disconnecting cancels nothing.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from ...errors import (
    AGENT_STOPPED,
    ConnectionClosed,
    Error,
    InternalError,
    InvalidParams,
    ResourceNotFound,
    RpcError,
)
from ..access.budget import Share
from ..access.limits import draining
from ..agents.upstream import Upstream
from ..log.engine import Origin
from ..log.records import (
    PROMPT,
    ErrorAnswer,
    PromptAccepted,
    PromptEnded,
    changed,
    meta_value,
    own_frame,
    raw,
    update_frame,
)
from ..log.summary import LogSummary
from ..log_context import about
from ..tracing import TRACE, describe, onward, span
from ..workers import owned
from .agent_link import AgentLink, Ready
from .history import History
from .outcomes import HostedTurn, Outcomes, interruption
from .questions import OpenQuestions
from .services import SessionServices
from .viewer import ConnectedClient

log = logging.getLogger("dragoman")

MAX_KEY = 200
CANCELLED = raw({"stopReason": "cancelled"})
CLOSING = 5.0  # seconds that a turn has to end when its session is closed

T = TypeVar("T")


class PromptQueue:
    """Takes prompts and runs them in order; `link` reaches the agent, `moved` is called when the queue changes."""

    def __init__(
        self,
        session: str,
        history: History,
        summary: LogSummary,
        questions: OpenQuestions,
        services: SessionServices,
        *,
        link: AgentLink,
        moved: Callable[[], None],
    ) -> None:
        self.running: HostedTurn | None = None
        self.outcomes = Outcomes(session, history, services.engine, services.metrics)
        self._session, self._history, self._summary, self._questions = session, history, summary, questions
        self._services, self._metrics = services, services.metrics
        self._link, self._moved = link, moved
        self._queue: deque[HostedTurn] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._starting: asyncio.Future[Ready] | None = None  # the agent, before a turn gets it
        self._upstream: tuple[Upstream, str] | None = None  # the agent of the running turn
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        return bool(self.outcomes.open) or self.running is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the running turn is being ended, so that its questions are not asked."""
        return self.running is not None and self.running.cancelled.is_set()

    @property
    def is_stale(self) -> bool:
        """Whether the running turn has its outcome already, so that its further updates are ignored."""
        return self.running is not None and self.running.is_ended

    @property
    def is_over(self) -> bool:
        """Whether the session is being closed and no turn runs, so that further updates are ignored."""
        return self._is_closed and self.running is None

    def is_of(self, client: ConnectedClient) -> bool:
        """Whether this client sent the prompt of the running turn."""
        running = self.running
        return running is not None and (running.principal, running.client) == (client.name, client.client_id)

    @property
    def waiting(self) -> list[HostedTurn]:
        return list(self._queue)

    def prompt(
        self, key: str, found: dict[str, Raw], client: ConnectedClient, share: Share
    ) -> "asyncio.Future[tuple[int, PromptEnded]]":
        """Run a prompt; returns the record number of its outcome, and the outcome.

        Its share of the budget is released with its outcome.
        """
        if turn := self.outcomes.open.get(key):
            share.give_back()
            return turn.outcome
        if (number := self._summary.outcome_of(key)) is not None:
            share.give_back()
            return owned(self.outcomes.read(number), "outcome", lambda exc: None)
        outcome = self._accept(key, found, client).outcome
        outcome.add_done_callback(lambda _: share.give_back())
        return outcome

    def _accept(self, key: str, found: dict[str, Raw], client: ConnectedClient) -> HostedTurn:
        if self._is_closed:
            raise ResourceNotFound("Session not found", {"sessionId": self._session})
        if self._services.is_draining:
            raise draining()
        if len(self._queue) >= self._services.limits.queue:
            raise self._services.budget.refuse("queue")
        _content(found)
        prompted = PromptAccepted(key)
        turn = HostedTurn(key, found, client)
        turn.number = self._history.add("client", lambda _: own_frame(prompted), client.name, client.client_id)
        self.outcomes.open[key] = turn
        self._queue.append(turn)
        self._moved()
        self._go_on()
        return turn

    # Cancelling

    def cancel(self, client: ConnectedClient) -> None:
        """Cancel the running turn and this client's waiting prompts."""
        for turn in list(self._queue):
            if (turn.principal, turn.client) == (client.name, client.client_id):
                self._drop(turn)
        if self.running:
            self._stop(self.running)

    def cancel_all(self) -> None:
        """Cancel the running and the waiting prompts."""
        for turn in list(self._queue):
            self._drop(turn)
        if self.running:
            self._stop(self.running)

    def cancel_one(self, key: str) -> bool:
        """Cancel one waiting or running prompt; false if there is none."""
        turn = self.outcomes.open.get(key)
        if turn is None:
            return False
        if turn is self.running:
            self._stop(turn)
        else:
            self._drop(turn)
        return True

    def _drop(self, turn: HostedTurn, ended: PromptEnded | None = None) -> None:
        if turn in self._queue:  # otherwise it has just ended
            self._queue.remove(turn)
            self.outcomes.end(turn, ended or PromptEnded(turn.key, CANCELLED))
            self._moved()

    def _stop(self, turn: HostedTurn) -> None:
        turn.cancelled.set()
        self._questions.cancel_all()
        if self._upstream:
            upstream, id = self._upstream
            upstream.cancel(id)

    # The end

    async def finished(self) -> None:
        """Wait until no prompt runs or waits."""
        await self.outcomes.all_told()

    async def close(self, *, is_last: bool) -> None:
        """End all prompts: as cancelled with the session, or as interrupted with the gateway (`is_last`)."""
        self._is_closed = True
        if not is_last:
            self.cancel_all()
            if self._worker:
                await asyncio.wait([self._worker], timeout=CLOSING)
        for turn in list(self._queue):
            self._drop(turn, _cut_short(turn))
        if self._worker:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        if self._starting:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self.outcomes.all_told()

    async def settle_broken(self) -> None:
        """Stop after the log has broken: run nothing more, and settle every prompt."""
        self._queue.clear()
        if self.running:
            self._stop(self.running)
        await self.outcomes.settle_broken()

    # Running

    def _go_on(self) -> None:
        if self._worker is None and self._queue:
            self._worker = owned(self._work(), "turns", self._died)

    def _died(self, exc: Exception) -> None:
        """Give the interrupted turn its outcome, and continue with the others."""
        turn, self.running, self._upstream, self._worker = self.running, None, None, None
        if turn:
            self.outcomes.end(turn, PromptEnded(turn.key, error=_failure(exc)))
        self._go_on()

    async def _work(self) -> None:
        try:
            while self._queue:
                self.running = turn = self._queue.popleft()
                self._moved()
                with (
                    about(session=self._session, principal=turn.principal),
                    span("turn", {"dragoman.session": self._session}, _trace(turn.found)),
                ):
                    ended = await self._run(turn)
                    describe(outcome=ended.outcome)
                self.running = None
                self.outcomes.end(turn, ended)
        except asyncio.CancelledError:  # the session or the gateway ends during a turn
            if self.running:
                await self._wind_up()
                self.outcomes.end(self.running, _cut_short(self.running))
            self.running = None
            raise
        self._worker = None
        self._moved()

    async def _run(self, turn: HostedTurn) -> PromptEnded:
        try:
            return PromptEnded(turn.key, await self._ask_agent(turn))
        except ConnectionClosed as exc:
            await self._wind_up()
            return PromptEnded(turn.key, error=interruption(exc.reason), interrupted=True)
        except RpcError as exc:
            return PromptEnded(turn.key, error=ErrorAnswer.of(exc))
        except Error as exc:  # for example, the agent does not start or the log cannot be written
            return PromptEnded(turn.key, error=ErrorAnswer.of(InternalError(str(exc))))
        except Exception as exc:
            log.exception("a turn of session %s failed", self._session)
            await self._wind_up()
            return PromptEnded(turn.key, error=_failure(exc))

    async def _ask_agent(self, turn: HostedTurn) -> Raw:
        await self._history.settled(turn.number)
        if turn.cancelled.is_set():
            return CANCELLED
        if (ready := await self._ready(turn)) is None:
            return CANCELLED
        upstream, id, primer = ready
        blocks = _content(turn.found)
        for block in blocks:
            update = raw({"sessionUpdate": "user_message_chunk", "content": block})
            self._tell("client", {"sessionId": raw(""), "update": update}, turn.principal, turn.client)
        await self._history.settled()
        if turn.cancelled.is_set():  # the agent never gets it
            return CANCELLED
        found = {**turn.found, "prompt": raw([*primer, *blocks])} if primer else turn.found
        self._link.reminded()
        return await self._answered(turn, upstream, id, changed(found, onward(), sessionId=id))

    async def _ready(self, turn: HostedTurn) -> Ready | None:
        """The agent; None if the turn is cancelled first, while the agent continues to start for the next one."""
        if self._starting is None or self._starting.done():  # an earlier result does not count any more
            self._starting = asyncio.ensure_future(self._link.ready(may_move=True))
            self._starting.add_done_callback(_look)
        await _first(self._starting, turn, None)
        if turn.cancelled.is_set():
            return None
        started, self._starting = self._starting, None
        return started.result()

    async def _answered(self, turn: HostedTurn, upstream: Upstream, id: str, params: Raw) -> Raw:
        """The agent's answer to a prompt; an agent that ignores a cancel is killed."""
        upstream.begin_turn(id)
        asking = upstream.ask("session/prompt", params)
        self._upstream = upstream, id  # from here on, a cancel goes to the agent
        try:
            await _first(asking, turn, self._services.limits.turn_seconds)
            is_late = not turn.cancelled.is_set()
            if not asking.done():
                if is_late:
                    self._stop(turn)
                await asyncio.wait([asking], timeout=self._services.limits.cancel_seconds)
                if not asking.done():
                    late = f"it did not stop in {self._services.limits.cancel_seconds:g} s"
                    await self._services.finish(upstream.end_failed(late))
                if is_late:
                    raise self._services.budget.refuse("turn_seconds")
                if not asking.done() or isinstance(asking.exception(), ConnectionClosed):
                    await self._wind_up()
                    return CANCELLED
            if _has_stopped(asking):  # its process is about to end, and the next prompt needs another one
                await self._services.finish(upstream.close())
                raise ConnectionClosed("the agent stopped")
            return asking.result()
        finally:
            self._upstream = None
            asking.cancel()
            _look(asking)  # another outcome may have come first

    async def _wind_up(self) -> None:
        """Report everything in progress as failed after the agent has ended; nothing is repeated."""
        self._questions.cancel_all()
        with contextlib.suppress(Error):  # a broken log is reported elsewhere
            await self._history.settled()
            for failure in self._summary.failures():
                self._tell("gateway", failure)

    def _tell(self, origin: Origin, found: dict[str, Raw], principal: str = "", client: str = "") -> None:
        self._history.add(origin, lambda number: update_frame(found, self._session, number), principal, client)

    def heard(self) -> None:
        """Note that the agent has sent an update of the turn."""
        if self.running and not self.running.is_answered:
            self.running.is_answered = True
            self._metrics.first_update_seconds.observe(time.monotonic() - self.running.began)


async def _first(waited_for: "asyncio.Future[Any]", turn: HostedTurn, seconds: float | None) -> None:
    """Wait until a task is done, the turn is cancelled, or the time is over."""
    stopping = asyncio.ensure_future(turn.cancelled.wait())
    both: set[asyncio.Future[Any]] = {waited_for, stopping}
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


def _has_stopped(asked: "asyncio.Future[T]") -> bool:
    """Whether an agent's error says that it was told to stop."""
    exc = asked.exception()
    return isinstance(exc, RpcError) and isinstance(exc.data, dict) and exc.data.get("kind") == AGENT_STOPPED


def _look(done: "asyncio.Future[T]") -> None:
    """Retrieve the result of a task that nobody may wait for any more."""
    if not done.cancelled():
        done.exception()


def key_of(found: dict[str, Raw], client: ConnectedClient) -> str:
    """The key of a prompt: its client's key, unique among all prompts of the principal."""
    key = meta_value(found, PROMPT)
    if key is None:
        key = secrets.token_hex(12)
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise InvalidParams(f"{PROMPT} has to be a string of at most {MAX_KEY} characters")
    return f"{owner(client.name)}{key}"


def owner(principal: str) -> str:
    """The prefix of the keys of one principal's prompts."""
    return principal.replace("%", "%25").replace("/", "%2F") + "/"


def _cut_short(turn: HostedTurn) -> PromptEnded:
    """The outcome of a turn that ends with its session or with the gateway."""
    if turn.cancelled.is_set():
        return PromptEnded(turn.key, CANCELLED)
    return PromptEnded(turn.key, error=interruption("the gateway stopped"), interrupted=True)


def _failure(exc: Exception) -> ErrorAnswer:
    """The outcome of a turn that failed because of the gateway; the log has the details."""
    return ErrorAnswer(-32603, f"the gateway failed: {type(exc).__name__}", {"kind": "gateway_failure"})


def _trace(found: dict[str, Raw]) -> dict[str, str]:
    """The trace context that a prompt carries."""
    told = {name: meta_value(found, name) for name in TRACE}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _content(found: dict[str, Raw]) -> list[Raw]:
    try:
        return msgspec.json.decode(found["prompt"], type=list[Raw])
    except (KeyError, msgspec.DecodeError):
        raise InvalidParams("prompt has to be a list of content blocks") from None


def answer(ended: PromptEnded) -> Raw:
    """An outcome as the answer to its request; raises it when it is an error."""
    if ended.error:
        raise ended.error.error()
    return ended.result
