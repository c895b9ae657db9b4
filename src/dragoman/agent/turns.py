"""A prompt on its way through an agent: from its arrival to its one answer, cancelled or not."""

import asyncio
import logging
import typing
from collections.abc import Awaitable
from contextvars import ContextVar

from msgspec.structs import replace

from .. import codec
from .. import schema as s
from ..connection.connection import Connection
from ..errors import ConnectionClosed, RequestCancelled, agent_stopped, brief
from .turn import Turn

log = logging.getLogger("dragoman")

STOP_REASONS: tuple[str, ...] = typing.get_args(s.StopReason)

_arrived: ContextVar["RunningTurn"] = ContextVar("arrived")

# The answer to nearly every prompt: made, checked and encoded once.
_PLAIN = {
    reason: codec.constant_result(s.PromptResponse(stop_reason=reason), s.PromptResponse) for reason in STOP_REASONS
}


class RunningTurn:
    """A prompt that has arrived and is not answered yet; made in the task that answers it.

    Cancelled is a state that lasts until the answer: the answer is `cancelled`, however the agent handles the
    cancellation.
    """

    __slots__ = ("_key", "_over", "_patience", "_timer", "_wire", "cancelled", "ended", "turn")

    def __init__(self, wire: Connection, patience: float) -> None:
        self.cancelled = False
        self.ended = False
        self.turn: Turn | None = None  # as the author sees it, once the agent has looked at the prompt
        self._wire, self._patience = wire, patience
        self._key = wire.answering
        self._over: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def here() -> "RunningTurn":
        """The prompt that the current task answers, or the task that started it."""
        return _arrived.get()

    def cancel(self, newest: int | None = None) -> None:
        """End the turn, unless it came after the `newest` request; it may send last updates for a while."""
        if self.cancelled or self.ended or (newest is not None and self._key > newest):
            return
        self.cancelled = True
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)
        self._wire.interrupt(self._key)

    def _give_up(self) -> None:
        log.warning("a cancelled turn does not end; the client is answered without it")
        self._wire.answer_early(self._key, self.response("cancelled"))
        self.end()

    async def outcome(self, work: Awaitable[s.PromptResponse]) -> s.PromptResponse:
        """Run the work and return its result, or `cancelled`.  Meanwhile `here` is this turn."""
        _arrived.set(self)
        try:
            response = await work
        except asyncio.CancelledError:
            return self.cut_short()
        except Exception as exc:
            return self.failed(exc)
        return replace(response, stop_reason="cancelled") if self.cancelled else response

    def failed(self, exc: Exception) -> s.PromptResponse:
        """The answer for a turn that raised: it was cancelled, the connection ended, or it failed."""
        if self.cancelled:
            log.warning("a cancelled turn failed", exc_info=True)
            return self.response("cancelled")
        if self._wire.closed and isinstance(exc, ConnectionClosed):
            raise agent_stopped() from None
        raise exc

    def cut_short(self) -> s.PromptResponse:
        """The answer for a turn that raised CancelledError: the client cancelled, the agent stops or gave up."""
        task = asyncio.current_task()
        assert task
        if self._wire.closed and not self.cancelled:
            raise agent_stopped() from None
        if not task.cancelling() and not self.cancelled:
            raise RequestCancelled("the agent gave up this turn")
        while task.uncancel():
            pass
        return self.response("cancelled")

    def response(self, reason: str | None) -> s.PromptResponse:
        if self.cancelled:
            reason = "cancelled"
        elif reason is not None and reason not in STOP_REASONS and not str(reason).startswith("_"):
            known = ", ".join(STOP_REASONS)
            raise TypeError(
                f"answer() returned {brief(repr(reason))}, which is no stop reason ({known}). "
                "Return nothing when the turn is done, and say things with `await turn.say(…)`"
            )
        turn, reason = self.turn, reason or "end_turn"
        if turn is not None and (turn.usage is not None or turn.answer_meta is not None):
            return s.PromptResponse(stop_reason=reason, usage=turn.usage, meta=turn.answer_meta)
        return _PLAIN.get(reason) or s.PromptResponse(stop_reason=reason)

    async def finished(self) -> None:
        """Wait until the turn has ended."""
        if self.ended:
            return
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._over)

    def end(self) -> None:
        """Let the next turn begin; from now on this turn can send nothing."""
        self.ended = True
        if self.turn:
            self.turn.ended = True
        if self._timer:
            self._timer.cancel()
        if self._over and not self._over.done():
            self._over.set_result(None)


def turn_ahead(queue: list[RunningTurn], running: RunningTurn) -> RunningTurn | None:
    """The first turn before this one that has not ended."""
    if queue[0] is running:
        return None
    ahead = next(other for other in queue if other is running or not other.ended)
    return None if ahead is running else ahead


def leave_turns(
    turns: dict[str, list[RunningTurn]], session_id: str, listed: list[RunningTurn], running: RunningTurn
) -> None:
    """Take a turn off its list; drop the list if it is empty and nothing has replaced it."""
    listed.remove(running)
    if not listed and turns.get(session_id) is listed:
        del turns[session_id]
