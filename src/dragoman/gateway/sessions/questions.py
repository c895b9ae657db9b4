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

from ... import schema as s
from ...errors import InternalError, MethodNotFound, RequestCancelled, RpcError
from ...events import Reply
from ..log.records import Answered, ErrorAnswer, QuestionAsked, changed, own_frame, raw
from ..metrics import Metrics
from .history import History
from .viewer import Viewer

log = logging.getLogger("dragoman")

PERMISSION = "session/request_permission"
CANCELLED = {
    PERMISSION: raw({"outcome": {"outcome": "cancelled"}}),
    "elicitation/create": raw({"action": "cancel"}),
}
RESOLVED = "_dragoman/permission_resolved"


class OpenQuestion:
    """One question, until it has its answer."""

    def __init__(self, id: str, method: str, params: Raw, number: int) -> None:
        self.id, self.method, self.params = id, method, params
        self.number = number  # where in the log it stands
        self.answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.is_durable = False  # before that nobody is asked
        self.refused: set[Viewer] = set()  # who cannot answer such a thing
        self.answered_at = 0  # where in the log its answer stands
        self.began = time.monotonic()


class _Options(Struct, rename="camel"):
    option_id: str


class _Offer(Struct):
    options: list[_Options] = []


class Asks:
    """The open questions of one session; while `is_stopping`, its turn is to end and nobody is asked anything."""

    def __init__(
        self,
        session: str,
        history: History,
        viewers: Callable[[], Iterable[Viewer]],
        metrics: Metrics,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._session, self._history, self._viewers, self._metrics = session, history, viewers, metrics
        self._is_stopping = is_stopping
        self._open: dict[str, OpenQuestion] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def put(self, method: str, found: dict[str, Raw]) -> Raw:
        """Ask, and wait for somebody's answer; raises what they answered instead.

        `found` are the params, with the session as clients know it.
        """
        if self._is_stopping():
            return CANCELLED[method]
        id = secrets.token_hex(8)
        params = changed(found, {"dragoman.ask": id})
        asked = QuestionAsked(id, method, params)
        number = self._history.add("agent", lambda _: own_frame(asked))
        ask = self._open[id] = OpenQuestion(id, method, params, number)  # from now on to cancel is to answer it
        try:
            await self._history.settled(number)
            ask.is_durable = True
            for viewer in self._viewers():
                self._offer(ask, viewer)
            if ask.refused:
                self._give_up(ask, MethodNotFound(data={"method": method}))
            answered = await ask.answer
        except BaseException:  # the agent no longer wants to know, or is gone, or the log takes no more
            self._cancel(ask)
            raise
        await self._history.settled(ask.answered_at)
        if answered.error:
            raise answered.error.error()
        return answered.result

    def offer_all(self, viewer: Viewer) -> None:
        """Put every open question to somebody who has just come, or may answer from now on."""
        for ask in list(self._open.values()):
            self._offer(ask, viewer)

    def take_away(self, viewer: Viewer) -> None:
        """Ask somebody no longer who may not answer any more."""
        for ask in list(self._open.values()):
            viewer.withdraw(ask.id)
            if ask.refused:
                self._give_up(ask, None)

    def cancel_all(self) -> None:
        """Answer everything: nobody will."""
        for ask in list(self._open.values()):
            self._cancel(ask)

    def _offer(self, ask: OpenQuestion, viewer: Viewer) -> None:
        if not viewer.may_edit or not ask.is_durable or ask.id not in self._open:
            return
        if viewer.fit.takes(ask.method, ask.params):
            viewer.after(ask.number, lambda: self._put_to(ask, viewer))
        else:
            ask.refused.add(viewer)

    def _put_to(self, ask: OpenQuestion, viewer: Viewer) -> None:
        """Ask somebody who has been told all that was told before the question, if it is still open."""
        if viewer.may_edit and ask.id in self._open:
            viewer.put(ask.id, ask.method, ask.params, lambda reply: self._replied(ask, viewer, reply))

    def _replied(self, ask: OpenQuestion, viewer: Viewer, reply: Reply) -> None:
        if ask.id not in self._open:
            if reply.error is None:
                viewer.notify(RESOLVED, {"ask": ask.id, "late": True})
            return
        viewer.asks.pop(ask.id, None)
        if not viewer.may_edit:
            return  # it was asked when it still might answer
        error, fits = reply.error, False
        if error is None:
            try:
                fits = _fits(ask, reply.result)
            except msgspec.DecodeError as exc:
                log.info("an answer does not fit its question: %s", exc)
                error = InternalError("the answer does not fit the question")
        if fits:
            self._settle(ask, Answered(ask.id, reply.result, by=viewer.client.name), viewer)
        elif isinstance(error, RpcError | None) and not isinstance(error, RequestCancelled):
            ask.refused.add(viewer)  # who is cancelled in the middle has not answered, but is about to leave
            self._give_up(ask, error)

    def _give_up(self, ask: OpenQuestion, error: RpcError | None) -> None:
        """When nobody who is here can answer such a question, the agent is told so."""
        able = {viewer for viewer in self._viewers() if viewer.may_edit}
        if able <= ask.refused:
            if error:
                self._settle(ask, Answered(ask.id, error=ErrorAnswer.of(error)))
            else:  # what nobody offered is chosen by nobody
                self._cancel(ask)

    def _cancel(self, ask: OpenQuestion) -> None:
        self._settle(ask, Answered(ask.id, CANCELLED[ask.method]))

    def _settle(self, ask: OpenQuestion, answered: Answered, by: Viewer | None = None) -> None:
        if self._open.pop(ask.id, None) is None:
            return
        if not self._history.broken:
            origin = by.client if by else None
            ask.answered_at = self._history.add(
                "client" if origin else "gateway",
                lambda _: own_frame(answered),
                origin.name if origin else "",
                origin.client_id if origin else "",
            )
        self._metrics.permission_seconds.observe(time.monotonic() - ask.began)
        if not ask.answer.done():
            ask.answer.set_result(answered)
        for viewer in self._viewers():
            if viewer is not by:
                viewer.withdraw(ask.id)
                viewer.notify(RESOLVED, {"ask": ask.id, "by": answered.by})


def _fits(ask: OpenQuestion, result: Raw) -> bool:
    """Whether an answer is one that was offered: a permission nobody offered is none."""
    if ask.method != PERMISSION:
        return True
    outcome = msgspec.json.decode(result, type=s.RequestPermissionResponse).outcome
    if isinstance(outcome, s.SelectedPermissionOutcome):
        offered = msgspec.json.decode(ask.params, type=_Offer).options
        return outcome.option_id in {option.option_id for option in offered}
    return isinstance(outcome, s.CancelledPermissionOutcome)
