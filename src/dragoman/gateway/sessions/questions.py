"""An agent's questions to the viewers of a session: durable, sent to every viewer that may answer, answered once.

A question is in the log before a viewer gets it, and its answer is in the log before the agent gets it.  Viewers
that attach later get the open questions, too.  The first answer counts; the other viewers, and those that answer
too late, are told so.
"""

import asyncio
import functools
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
        self.number = number  # its record number
        self.answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.is_durable = False  # nobody is asked before that
        self.refused: set[Viewer] = set()  # viewers that cannot answer this kind of question
        self.answered_at = 0  # the record number of its answer
        self.began = time.monotonic()


class _Options(Struct, rename="camel"):
    option_id: str


class _Offer(Struct):
    options: list[_Options] = []


class OpenQuestions:
    """The open questions of one session; while `is_stopping`, the turn is ending and nobody is asked."""

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
        """Ask and wait for an answer; raises an error answer.

        `found` are the params, with the clients' session id.
        """
        if self._is_stopping():
            return CANCELLED[method]
        id = secrets.token_hex(8)
        params = changed(found, {"dragoman.ask": id})
        asked = QuestionAsked(id, method, params)
        number = self._history.add("agent", lambda _: own_frame(asked))
        question = self._open[id] = OpenQuestion(id, method, params, number)  # from now on, a cancel answers it
        try:
            await self._history.settled(number)
            question.is_durable = True
            for viewer in self._viewers():
                self._offer(question, viewer)
            if question.refused:
                self._give_up(question, MethodNotFound(data={"method": method}))
            answered = await question.answer
        except BaseException:  # the agent cancelled the request or ended, or the log broke
            self._cancel(question)
            raise
        await self._history.settled(question.answered_at)
        if answered.error:
            raise answered.error.error()
        return answered.result

    def offer_all(self, viewer: Viewer) -> None:
        """Send every open question to a viewer that has just come, or may answer from now on."""
        for question in list(self._open.values()):
            self._offer(question, viewer)

    def take_away(self, viewer: Viewer) -> None:
        """Withdraw the open questions from a viewer that may not answer any more."""
        for question in list(self._open.values()):
            viewer.withdraw(question.id)
            if question.refused:
                self._give_up(question, None)

    def cancel_all(self) -> None:
        """Answer every open question as cancelled."""
        for question in list(self._open.values()):
            self._cancel(question)

    def _offer(self, question: OpenQuestion, viewer: Viewer) -> None:
        if not viewer.may_edit or not question.is_durable or question.id not in self._open:
            return
        if viewer.fit.takes(question.method, question.params):
            viewer.after(question.number, lambda: self._put_to(question, viewer))
        else:
            question.refused.add(viewer)

    def _put_to(self, question: OpenQuestion, viewer: Viewer) -> None:
        """Ask a viewer that has been sent everything before the question, if the question is still open."""
        if viewer.may_edit and question.id in self._open:
            settle = functools.partial(self._replied, question, viewer)
            viewer.put(question.id, question.method, question.params, settle)

    def _replied(self, question: OpenQuestion, viewer: Viewer, reply: Reply) -> None:
        if question.id not in self._open:
            if reply.error is None:
                viewer.notify(RESOLVED, {"ask": question.id, "late": True})
            return
        viewer.questions.pop(question.id, None)
        if not viewer.may_edit:
            return  # it was asked while it was still allowed to answer
        error, fits = reply.error, False
        if error is None:
            try:
                fits = _fits(question, reply.result)
            except msgspec.DecodeError as exc:
                log.info("an answer does not fit its question: %s", exc)
                error = InternalError("the answer does not fit the question")
        if fits:
            self._settle(question, Answered(question.id, reply.result, by=viewer.client.name), viewer)
        elif isinstance(error, RpcError | None) and not isinstance(error, RequestCancelled):
            question.refused.add(viewer)  # a cancelled request is not an answer: its client is about to leave
            self._give_up(question, error)

    def _give_up(self, question: OpenQuestion, error: RpcError | None) -> None:
        """Tell the agent if no viewer can answer such a question."""
        able = {viewer for viewer in self._viewers() if viewer.may_edit}
        if able <= question.refused:
            if error:
                self._settle(question, Answered(question.id, error=ErrorAnswer.of(error)))
            else:  # only offered options can be chosen
                self._cancel(question)

    def _cancel(self, question: OpenQuestion) -> None:
        self._settle(question, Answered(question.id, CANCELLED[question.method]))

    def _settle(self, question: OpenQuestion, answered: Answered, by: Viewer | None = None) -> None:
        if self._open.pop(question.id, None) is None:
            return
        if not self._history.broken:
            origin = by.client if by else None
            question.answered_at = self._history.add(
                "client" if origin else "gateway",
                lambda _: own_frame(answered),
                origin.name if origin else "",
                origin.client_id if origin else "",
            )
        self._metrics.permission_seconds.observe(time.monotonic() - question.began)
        if not question.answer.done():
            question.answer.set_result(answered)
        for viewer in self._viewers():
            if viewer is not by:
                viewer.withdraw(question.id)
                viewer.notify(RESOLVED, {"ask": question.id, "by": answered.by})


def _fits(question: OpenQuestion, result: Raw) -> bool:
    """Whether an answer is one of the offered ones."""
    if question.method != PERMISSION:
        return True
    outcome = msgspec.json.decode(result, type=s.RequestPermissionResponse).outcome
    if isinstance(outcome, s.SelectedPermissionOutcome):
        offered = msgspec.json.decode(question.params, type=_Offer).options
        return outcome.option_id in {option.option_id for option in offered}
    return isinstance(outcome, s.CancelledPermissionOutcome)
