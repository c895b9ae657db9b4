"""Work that may ask the user of an MCP host: it goes on whoever waits for it, its questions come one at a time."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from ...foundation.owning import own
from ...host.permissions.questions import Question

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

ANSWER_TIMEOUT = 600.0  # seconds a question waits for an answer
DETAIL = 4000  # characters of a change that a question shows
DECISION = "decision"

T = TypeVar("T")


class PutQuestion(msgspec.Struct, eq=False):
    """A question that waits for its answer; `key` is never used for another one."""

    question: Question
    key: str
    answer: "asyncio.Future[str | None]"

    def settle(self, option: str | None) -> None:
        """Answer it, unless it has been answered; None allows nothing."""
        if not self.answer.done():
            self.answer.set_result(option)

    def form(self) -> types.ElicitRequestFormParams:
        """The question as a form with one choice."""
        question = self.question
        parts = [question.title, question.text, *(f"Warning: {warning}" for warning in question.warnings)]
        if question.detail:
            cut = len(question.detail) > DETAIL
            parts.append(question.detail[:DETAIL] + ("\n… (more is not shown)" if cut else ""))
        choice = {
            "type": "string",
            "title": "Decision",
            "enum": [option.id for option in question.options],
            "enumNames": [option.label for option in question.options],
        }
        return types.ElicitRequestFormParams(
            message="\n".join(parts),
            requested_schema={"type": "object", "properties": {DECISION: choice}, "required": [DECISION]},
        )

    def chosen(self, answer: object) -> str | None:
        """The option that a host's answer chooses; anything but a clear choice allows nothing."""
        if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
            return None
        option = self.question.option((answer.content or {}).get(DECISION))
        return option.id if option else None


class AskingWork(Generic[T]):
    """Work in a task of its own, with at most one question that waits.

    `state` is what a host shows that comes back for it; nobody can guess it.
    """

    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(16)
        self.waiting: PutQuestion | None = None
        self.task: asyncio.Task[T]
        self._changed = asyncio.Event()
        self._asked = 0

    def begin(self, work: "Coroutine[object, object, T]", name: str) -> None:
        """Start the work."""
        self.task = own(work, name)
        self.task.add_done_callback(self._over)

    async def next(self) -> PutQuestion | T:
        """Wait for a question, or for the result; raises why there is none."""
        while self.waiting is None and not self.task.done():
            self._changed.clear()
            await self._changed.wait()
        return self.waiting or self.task.result()

    async def ask(self, question: Question) -> str | None:
        """Put a question to the host, and wait for the answer."""
        self._asked += 1
        waiting = PutQuestion(question, f"{DECISION}-{self._asked}", asyncio.get_running_loop().create_future())
        self.waiting = waiting
        self._changed.set()
        try:
            return await waiting.answer
        finally:
            if self.waiting is waiting:
                self.waiting = None

    def refuse(self) -> None:
        """Answer the question that waits with no."""
        if self.waiting:
            self.waiting.settle(None)
            self.waiting = None

    def answered(self, answers: Mapping[str, object]) -> None:
        """Take a host's answers; one to a question that does not wait any more answers none."""
        if self.waiting and self.waiting.key in answers:
            self.waiting.settle(self.waiting.chosen(answers[self.waiting.key]))
            self.waiting = None

    def _over(self, task: "asyncio.Task[T]") -> None:
        self._changed.set()
        if not task.cancelled():
            task.exception()  # whoever waits hears of it


def elicits(session: "ServerSession") -> bool:
    """Whether the host can put a form to its user."""
    offers = session.client_capabilities
    return offers is not None and offers.elicitation is not None


async def followed(context: "ServerRequestContext", work: AskingWork[T]) -> T | types.InputRequiredResult:
    """The result of work; its questions are put to the host, where there is somebody to ask.

    Hosts of the newer MCP are given a question instead of the result, and come back with the answer.
    """
    while isinstance(found := await work.next(), PutQuestion):
        if not elicits(context.session):
            found.settle(None)  # nobody can be asked, which means no
        elif context.session.can_send_request:
            await _elicited(context, found)
        else:
            request = types.ElicitRequest(params=found.form())
            return types.InputRequiredResult(input_requests={found.key: request}, request_state=work.state)
        if work.waiting is found:
            work.waiting = None
    return found


async def _elicited(context: "ServerRequestContext", question: PutQuestion) -> None:
    """Ask the host in the middle of its request, as long as the question waits."""
    form = question.form()
    asking = asyncio.ensure_future(context.session.elicit_form(form.message, form.requested_schema))
    waiting: list[asyncio.Future[Any]] = [asking, question.answer]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            question.settle(question.chosen(asking.result()))
    except (MCPError, ValueError):  # it could not ask, or answered something else
        question.settle(None)
    finally:
        asking.cancel()
