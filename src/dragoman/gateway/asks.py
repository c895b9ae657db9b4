"""Questions an agent puts to the people at a session: durable, offered to all who may answer, answered once.

A question is in the log before anybody sees it, and so is its answer before the agent hears it.  Whoever sits down
later is asked, too.  The first answer counts; the others are told that it was given, and so is who comes too late.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw, Struct

from .. import schema as s
from ..errors import RequestCancelled, RpcError
from ..rpc import Reply
from .history import History
from .metrics import Metrics
from .records import Answered, Asked, Problem, changed, own_frame, raw
from .seat import Seat

log = logging.getLogger("dragoman")

PERMISSION = "session/request_permission"
CANCELLED = {
    PERMISSION: raw({"outcome": {"outcome": "cancelled"}}),
    "elicitation/create": raw({"action": "cancel"}),
}
RESOLVED = "_dragoman/permission_resolved"


class Ask:
    """One question, until it has its answer."""

    def __init__(self, id: str, method: str, params: Raw) -> None:
        self.id, self.method, self.params = id, method, params
        self.answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.refused: set[Seat] = set()  # who cannot answer such a thing
        self.began = time.monotonic()


class _Options(Struct, rename="camel"):
    option_id: str


class _Offer(Struct):
    options: list[_Options] = []


class Asks:
    """The open questions of one session."""

    def __init__(
        self, session: str, history: History, seats: Callable[[], Iterable[Seat]], metrics: Metrics
    ) -> None:
        self._session, self._history, self._seats, self._metrics = session, history, seats, metrics
        self._open: dict[str, Ask] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def put(self, method: str, found: dict[str, Raw]) -> Raw:
        """Ask, and wait for somebody's answer; raises what they answered instead."""
        id = secrets.token_hex(8)
        params = changed(found, {"dragoman.ask": id}, sessionId=self._session)
        asked = Asked(id, method, params)
        await self._history.settled(self._history.add("agent", lambda _: own_frame(asked)))
        ask = self._open[id] = Ask(id, method, params)
        for seat in self._seats():
            self._offer(ask, seat)
        try:
            answered = await ask.answer
        except asyncio.CancelledError:  # the agent no longer wants to know, or is gone
            self._cancel(ask)
            raise
        await self._history.settled()
        if answered.error:
            raise answered.error.error()
        return answered.result

    def offer_all(self, seat: Seat) -> None:
        """Put every open question to somebody who has just sat down."""
        for ask in list(self._open.values()):
            self._offer(ask, seat)

    def cancel_all(self) -> None:
        """Answer everything: nobody will."""
        for ask in list(self._open.values()):
            self._cancel(ask)

    def _offer(self, ask: Ask, seat: Seat) -> None:
        if seat.may_edit:
            seat.put(ask.id, ask.method, ask.params, lambda reply: self._replied(ask, seat, reply))

    def _replied(self, ask: Ask, seat: Seat, reply: Reply) -> None:
        if ask.id not in self._open:
            if reply.error is None:
                seat.notify(RESOLVED, {"ask": ask.id, "late": True})
            return
        seat.asks.pop(ask.id, None)
        if reply.error is None and _fits(ask, reply.result):
            self._settle(ask, Answered(ask.id, reply.result, by=seat.visitor.name), seat)
        elif isinstance(reply.error, RpcError | None) and not isinstance(reply.error, RequestCancelled):
            ask.refused.add(seat)  # who is cancelled in the middle has not answered, but is about to leave
            self._give_up(ask, reply.error)

    def _give_up(self, ask: Ask, error: RpcError | None) -> None:
        """When nobody who is here can answer such a question, the agent is told so."""
        able = {seat for seat in self._seats() if seat.may_edit}
        if able <= ask.refused:
            problem = Problem.of(error) if error else Problem(-32603, "the answer does not fit the question")
            self._settle(ask, Answered(ask.id, error=problem))

    def _cancel(self, ask: Ask) -> None:
        self._settle(ask, Answered(ask.id, CANCELLED[ask.method]))

    def _settle(self, ask: Ask, answered: Answered, by: Seat | None = None) -> None:
        if self._open.pop(ask.id, None) is None:
            return
        if not self._history.broken:
            origin = by.visitor if by else None
            self._history.add(
                "client" if origin else "gateway",
                lambda _: own_frame(answered),
                origin.name if origin else "",
                origin.client if origin else "",
            )
        self._metrics.permission_seconds.observe(time.monotonic() - ask.began)
        if not ask.answer.done():
            ask.answer.set_result(answered)
        for seat in self._seats():
            if seat is not by:
                seat.withdraw(ask.id)
                seat.notify(RESOLVED, {"ask": ask.id, "by": answered.by})


def _fits(ask: Ask, result: Raw) -> bool:
    """Whether an answer is one that was offered: a permission nobody offered is none."""
    if ask.method != PERMISSION:
        return True
    try:
        outcome = msgspec.json.decode(result, type=s.RequestPermissionResponse).outcome
        if isinstance(outcome, s.SelectedPermissionOutcome):
            offered = msgspec.json.decode(ask.params, type=_Offer).options
            return outcome.option_id in {option.option_id for option in offered}
        return isinstance(outcome, s.CancelledPermissionOutcome)
    except msgspec.DecodeError as exc:
        log.info("an answer does not fit its question: %s", exc)
        return False
