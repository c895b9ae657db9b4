"""The client of a screen: a host whose questions, commands and decisions become events of the view model."""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping

import msgspec

from ... import schema as s
from ...foundation.owning import own
from ...host import Host
from ...host.display import shown_command, visible
from ...host.permissions import Preset, Question
from ...host.processes import Launch
from ...host.terminals import Size, Terminal
from ...host.terminals.running import SHELL, execution
from ...signatures import extension
from ..headless.wording import doing
from ..model import events as e
from ..model.intents import AnswerQuestion
from ..model.parts import Participant, PendingQuestion, QuestionChoice

ARMING = 0.4  # seconds before an approval counts, independent of the screen
OWN = "the user's own commands"  # the session of commands that do not concern the agent
MOST_PEOPLE = 100  # people at one session
MAX_FORM = 8000  # characters of a form's message

Tell = Callable[[e.ModelEvent], object]


class PersonPresent(msgspec.Struct):
    """A user who has a session open at a gateway."""

    principal: str
    role: str = ""
    seats: int = 1


class Presence(msgspec.Struct):
    """A gateway's notification about the users who have a session open."""

    people: list[PersonPresent] = []


class ScreenHost(Host):
    """A host that adds its questions to the view model and waits for the answers."""

    def __init__(self, agent: Launch, preset: Preset, tell: Tell) -> None:
        super().__init__(
            preset=preset,
            asker=self._ask_permission,
            agent_name=agent.name or agent.described(),
            arming=ARMING,
            at_once=True,
        )
        self.launch = agent
        self.missing_files = agent.missing
        self._tell = tell
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[AnswerQuestion]] = {}
        self._following: set[asyncio.Task[None]] = set()

    def capabilities(self) -> s.ClientCapabilities:
        """The capabilities of a host, plus a login at the user's terminal."""
        return msgspec.structs.replace(super().capabilities(), auth=s.AuthCapabilities(terminal=True))

    # Questions

    def answer(self, answer: AnswerQuestion) -> None:
        """Answer a question; ignored if it is not open any more."""
        if (waiting := self._waiting.get(answer.id)) is not None and not waiting.done():
            waiting.set_result(answer)

    async def put(self, question: PendingQuestion, worded: Callable[[AnswerQuestion], str]) -> AnswerQuestion:
        """Show a question and return the user's answer."""
        id = f"q{next(self._numbers)}"
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self._tell(e.QuestionPut(question=msgspec.structs.replace(question, id=id), at=time.monotonic()))
        over = e.QuestionOver(id=id)
        try:
            answer: AnswerQuestion = await waiting
            choice = next((each for each in question.choices if each.id == answer.choice), None)
            words = choice.label if choice else worded(answer)
            over = e.QuestionOver(id=id, answer=words, allowed=choice.allows if choice else None)
            return answer
        finally:
            del self._waiting[id]
            self._tell(msgspec.structs.replace(over, at=time.monotonic()))

    async def _ask_permission(self, question: Question) -> str | None:
        choices = [QuestionChoice(id=o.id, label=o.label, allows=o.allows, scope=o.scope) for o in question.options]
        pending = PendingQuestion(
            id="",
            kind="permission",
            title=question.title,
            text=question.text,
            choices=choices,
            warnings=question.warnings,
            detail=question.detail,
            is_claim=question.operation is None,
            tool_call_id=question.tool_call_id,
        )
        return (await self.put(pending, lambda _: "No answer, so no")).choice

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Show the tool call of a permission request, which may be new; then answer as `Host` does."""
        if not self.is_cancelled(params.session_id):
            fields = {name: getattr(params.tool_call, name) for name in params.tool_call.__struct_fields__}
            self._tell(e.UpdateTold(update=s.ToolCallUpdated(**fields), at=time.monotonic()))
        return await super().request_permission(params)

    async def fill_form(self, form: s.FormElicitation) -> Mapping[str, s.ElicitationContentValue] | None:
        """Show a form and return the user's values; None if the user declined."""
        words = visible(form.message, limit=MAX_FORM, lines=True)
        pending = PendingQuestion(
            id="", kind="form", title="The agent asks", text=words, form=form.requested_schema, is_claim=True
        )
        answer = await self.put(pending, lambda given: "declined" if given.content is None else "sent")
        return answer.content

    async def open_url(self, question: s.UrlElicitation) -> bool:
        """Ask whether to open a page; the screen opens it."""
        choices = (
            QuestionChoice(id="open", label="Open the page", allows=True),
            QuestionChoice(id="no", label="Do not"),
        )
        pending = PendingQuestion(
            id="",
            kind="url",
            title="The agent asks you to visit a page",
            text=visible(question.message, limit=MAX_FORM, lines=True),
            url=question.url,
            choices=choices,
            is_claim=True,
        )
        return (await self.put(pending, lambda _: "not opened")).choice == "open"

    def decided(self, event: Mapping[str, object]) -> None:
        """Report an operation that was denied without a question; the screen shows everything else anyway."""
        if event.get("decision") == "deny" and not event.get("asked"):
            call = str(event.get("tool_call") or "")
            told = e.DecisionTold(
                title=doing(event), allowed=False, why=str(event.get("why") or ""), tool_call_id=call
            )
            self._tell(msgspec.structs.replace(told, at=time.monotonic()))

    @extension("_dragoman/presence")
    def presence(self, told: Presence) -> None:
        """Report who has the session open."""
        people = [
            Participant(
                name=each.principal, role=each.role, client=f"{each.seats} clients" if each.seats > 1 else ""
            )
            for each in told.people[:MOST_PEOPLE]
        ]
        self._tell(e.PeopleTold(people=people))

    # Commands

    def terminal_started(self, terminal: Terminal) -> None:
        super().terminal_started(terminal)
        operation = terminal.operation
        words = operation.argv[-1] if operation.shell else shown_command(operation.argv)
        is_mine = terminal.session_id == OWN
        words = operation.argv[-1] if is_mine else words
        self._tell(e.TerminalBegan(id=terminal.id, command=words, is_mine=is_mine, at=time.monotonic()))
        task = own(self._follow(terminal), "follow")
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _follow(self, terminal: Terminal) -> None:
        try:
            async for chunk in terminal.follow():
                self._tell(e.TerminalPrinted(id=terminal.id, text=chunk.text))
        finally:
            self._tell(e.TerminalOver(id=terminal.id, status=terminal.status, at=time.monotonic()))

    async def run_own(self, command: str, cwd: str) -> Terminal:
        """Run a command in the user's shell, in a terminal that the user can type into."""
        operation = execution(SHELL, ["-c", command], cwd=cwd, interactive=True)
        terminal = await self.terminals.create(OWN, operation, size=Size(80, 24))
        self.terminal_started(terminal)
        return terminal

    def own_terminal(self, id: str) -> Terminal | None:
        """The terminal of a user's command; None if the command has ended."""
        return next((each for each in self.terminals.of(OWN) if each.id == id and each.status is None), None)
