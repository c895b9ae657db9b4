"""A turn as text: the agent's messages go to one stream, everything else to another.

Lines are added and never changed, so that scrolling back shows what happened.  On a terminal, the plan and the
running calls are live lines below them; the plan is written once, when it is done or when the turn ends.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import TextIO

from ... import schema as s
from ...client.client import Client
from ...host.operations import FileOperation
from ...host.permissions import Option, Question
from ...host.permissions.claims import UNCHECKED
from ...roles import offered
from ...transcript import Compaction, Message, PlanEntries, Subagent, ToolCallEntry
from ..layout import both_ends, broken, flowing, wrapped
from ..legible import legible, one_line
from ..markdown import MarkdownStream
from ..model.conversation import ConversationModel
from ..model.events import DecisionTold, PromptGiven, SessionBegan, TurnOver, UpdateTold
from ..model.parts import SettledQuestion, ShownEntry
from ..output import complaint, marked
from ..style import size_of
from .calls import COLOURS, MARKS, ToolCallLines
from .page import INDENT, Page
from .terms import RunOutcome
from .wording import doing, is_worth_a_line

SEVERITIES = {"info": "blue", "warning": "yellow", "error": "red"}
GOING_ON = ("session_capabilities.resume", "load_session")
SHORT_STEP = 24  # columns; short steps of a plan are shown in cells, others in a line each
QUIET = 3  # seconds without output after which the time is shown
TURN = "run"  # the id of the one prompt of a run
CLAIM = "the agent's claim, not verifiable"


class Screen(Page):
    """Shows a turn as it happens, to a person or in a pipe."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        super().__init__(said, aside)
        self._model = ConversationModel()
        self._calls = ToolCallLines(self, self._model)
        self._plan_steps: Sequence[s.PlanEntry] = ()
        self._is_plan_written = True  # whether the written plan is up to date
        self._is_resumable = False  # whether the session can be continued later
        self._seconds = 0  # seconds that the turn has run
        self._last_sign = 0  # the time of the last output
        self._starting: tuple[str, int] | None = None  # the starting agent, and seconds

    # What happens

    def starting(self, agent: str, seconds: int) -> None:
        """Show how long the agent has been starting: a counting line on a terminal, elsewhere a few lines."""
        self._starting = agent, seconds
        if not self.is_terminal and is_worth_a_line(seconds):
            self.lines([f"starting {one_line(agent, 60)} … {seconds} s"])
        self.draw()

    def began(self, agent: str, client: Client, session_id: str, cwd: str) -> None:
        """Note the open session, and what was recalled of it; from now on, its paths are shortened."""
        self._starting = None
        self._model.apply(SessionBegan(id=session_id, cwd=cwd, agent=agent, is_continued=True))
        self._model.apply(PromptGiven(id=TURN, prompt=()))
        self._is_resumable = any(offered(client.agent_capabilities, name) for name in GOING_ON)
        self.draw()

    def working(self, seconds: int) -> None:
        """Note how long the turn has run."""
        self._seconds = seconds
        self.draw()

    def live(self) -> list[str]:
        """The live lines: the starting agent, the running calls, the plan, or the time since the last output."""
        columns, height = size_of(self.aside)
        if self._starting:
            agent, seconds = self._starting
            return [self.style(f"starting {one_line(agent, columns - 18)} … {seconds} s", "dim")]
        calls, plan = self._calls.live(), [] if self._is_plan_written else self._drawn_plan()
        parts = [calls, plan]
        if not plan and self._seconds - self._last_sign >= QUIET:  # a plan shows how long it has taken
            parts.append(
                [self.style(one_line(f"{self._model.agent} is working … {self._seconds} s", columns), "dim")]
            )
        lines = [line for part in parts if part for line in ("", *part)]
        if self.topic in ("", "tool") and calls:
            lines = lines[1:]
        return lines if len(lines) < height else []  # it could not be redrawn

    def recall(self, update: s.SessionUpdate) -> None:
        """Apply an update that was shown in an earlier run."""
        for entry in self._model.apply(UpdateTold(update=update)).entries:
            if isinstance(entry, Message):
                entry.forget()

    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        self._last_sign = self._seconds
        if isinstance(event, s.PromptResponse):
            self._model.apply(TurnOver(id=TURN, response=event))
            self._calls.end()
            self._write_plan()
            return
        self._show_entries(UpdateTold(update=event))
        self._state(event)

    def _show_entries(self, event: UpdateTold | DecisionTold) -> None:
        update = event.update if isinstance(event, UpdateTold) else None
        for entry in self._model.apply(event).entries:
            self._show_entry(entry, update)

    def _show_entry(self, entry: ShownEntry, event: s.SessionUpdate | None) -> None:
        match entry:
            case SettledQuestion(title=title, why=why):
                first, *further = wrapped(f"✗ denied: {title} ({why})", self.columns - len(INDENT))
                self.line("denied", self.style("✗", "red") + first[1:])
                self.lines(f"{INDENT}{part}" for part in further)
            case Message(speaker="agent" | "thought") as message:
                self.speak(message)
            case ToolCallEntry() as call if event is not None:
                self._calls.show(call, event)
            case PlanEntries(plan=plan) if plan is not None:
                self._plan(plan)
            case s.Notice(severity=severity, title=title, description=description):
                words = one_line(f"{title}: {description}" if description else title)
                self.line("notice", self.style(f"! {words}", SEVERITIES.get(severity, "yellow")))
            case Compaction(status=status) if isinstance(event, s.CompactionUpdate):
                self.line("notice", self.style(f"context compaction: {one_line(status)}", "dim"))
            case Subagent() as subagent if isinstance(event, s.SubagentUpdate) and event.state:
                self._subagent(subagent)

    def asked_about(self, request: s.RequestPermissionRequest) -> None:
        """Apply the tool call of an agent's question, which may be new."""
        call = request.tool_call
        fields = {name: getattr(call, name) for name in call.__struct_fields__}
        self._model.apply(UpdateTold(update=s.ToolCallUpdated(**fields)))

    def question(self, question: Question, keys: Mapping[str, Option]) -> None:
        """Show a question and the keys that answer it."""
        style, columns = self.style, self.columns
        self.hold_still(True)
        self.begin("question")
        title, claim = f"? {question.title}", "" if question.operation else CLAIM
        self.lines(both_ends(style(title, "yellow", "bold"), style(claim, "yellow"), columns))
        for line in question.text.split("\n"):
            cut = wrapped if claim else broken  # the operation is shown exactly
            self.lines(f"{INDENT}{part}" for part in cut(self._shortened(line, question), columns - 2))
        for warning in question.warnings:
            if not claim or warning != UNCHECKED:  # the first line shows it
                self.lines(style(f"{INDENT}{part}", "yellow") for part in wrapped(f"! {warning}", columns - 2))
        if question.detail:
            detail = [self._calls.short(line) for line in question.detail.split("\n")]
            self.lines(self._calls.coloured(detail))  # all of it
            self._calls.mark_diffs(question.tool_call_id)
        self.lines(self._choices(keys))

    def _shortened(self, line: str, question: Question) -> str:
        """A line of a question, with paths relative to the session's directory; commands stay unchanged."""
        if isinstance(question.operation, FileOperation):
            return self._calls.short(line)
        name, colon, path = line.partition(": ")
        is_file = question.operation is None and name == "File"
        return f"{name}{colon}{self._calls.short(path)}" if is_file else line

    def _choices(self, keys: Mapping[str, Option]) -> list[str]:
        """The keys with their meanings, which are always shown completely."""
        columns = self.columns - len(INDENT)
        cells = []
        for key, option in keys.items():
            first, *further = wrapped(option.label, columns - 2)
            cells.append(f"{self.style(key, 'bold', 'green' if option.allows else 'red')} {first}")
            cells += [f"  {part}".ljust(columns) for part in further]
        return flowing(cells, self.columns, INDENT)

    def prompt(self, words: str, again: bool = False) -> None:
        """Show that a key is awaited, on a new line or on the one that awaited another key."""
        if again:
            self.aside.write(marked("\r\x1b[2K") if self.is_terminal else "\n")
        self.aside.write(f"{INDENT}{self.style(words, 'yellow')} ")
        self.aside.flush()

    def answered(self, words: str) -> None:
        """End the line that awaited a key."""
        self.aside.write(f"{one_line(words, self.columns - len(INDENT) - len('Press a key: '))}\n")
        self.aside.flush()
        self.hold_still(False)

    def asked(self, question: Question) -> None:
        """Nothing is written: `question` shows it if the user can answer."""
        self.make_room()

    def decided(self, event: Mapping[str, object]) -> None:
        """Show a decision that was made without a question and that the user may not expect."""
        if event["decision"] == "deny" and event["operation"] == "claim":
            self._calls.denied(str(event["tool_call"]))
        if event["decision"] == "deny" and not event.get("asked"):
            call = str(event.get("tool_call") or "")
            why = str(event["why"])
            self._show_entries(DecisionTold(title=doing(event), allowed=False, why=why, tool_call_id=call))
        elif event["operation"] == "claim" and event["decision"] == "allow" and not event.get("asked"):
            self._calls.allowed(str(event["tool_call"]))

    def terminal(self, id: str, command: str) -> None:
        self._calls.terminal(id, command)

    def output(self, id: str, text: str, stream: str) -> None:
        self._calls.output(id, text)

    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None:
        self._calls.terminal_ended(id, how)

    def remark(self, words: str) -> None:
        """Show a remark of ours."""
        self._remark("remark", one_line(words))

    def ended(self, outcome: RunOutcome) -> None:
        """Show the end of the run."""
        self._starting = None
        self._calls.end()
        self._write_plan()
        self.finish_message()
        if outcome.error:
            self.line("end", complaint(outcome.error))
        elif words := self._summary(outcome):
            self._remark("end", words)
        if self._is_resumable and outcome.stop_reason:
            again = f"to continue this session: --session {shlex.quote(one_line(self._model.id))}"
            self._remark("end", again)

    # The rest

    def _remark(self, topic: str, words: str) -> None:
        self.begin(topic)
        self.lines(self.style(line, "dim") for line in wrapped(words, self.columns))

    def _plan(self, plan: s.Plan | s.PlanUpdateContent) -> None:
        match plan:
            case s.Plan(entries=steps) | s.PlanItems(entries=steps):
                self._plan_of(steps)
            case s.PlanFile(uri=uri):
                self.line("plan", f"{self.style('Plan', 'bold')} {one_line(uri)}")
            case s.PlanMarkdown(content=content):
                self.line("plan", self.style("Plan", "bold"))
                drawn = MarkdownStream(self.style, self.columns - len(INDENT))
                text = legible(content.rstrip())
                text = drawn.show(text) + drawn.end() if self.is_terminal else text
                self.lines(f"{INDENT}{line}" for line in text.rstrip("\n").split("\n"))

    def _plan_of(self, steps: Sequence[s.PlanEntry]) -> None:
        """Show the plan: on a terminal as live lines, elsewhere the changed steps."""
        before = {step.content: step.status for step in self._plan_steps}
        changed = [step for step in steps if before.get(step.content) != step.status]
        self._plan_steps = steps
        if not changed:
            return
        if self.is_terminal:
            self._is_plan_written = False
            self.make_room()
            self.draw()
            if all(step.status == "completed" for step in steps):
                self._write_plan()
            return
        if self.topic != "plan":
            self.line("plan", self._plan_head())
        self.lines(f"{INDENT}{self._step(step, self.columns - 2)}" for step in changed)

    def _write_plan(self) -> None:
        """Write the current plan, unless it was written already."""
        if not self._is_plan_written:
            self._is_plan_written = True
            self.begin("plan")
            self.lines(self._drawn_plan())

    def _drawn_plan(self) -> list[str]:
        columns, steps = self.columns, self._plan_steps
        drawn = [self._step(step, columns - len(INDENT)) for step in steps]
        if all(len(step.content) <= SHORT_STEP for step in steps):
            return [self._plan_head(), *flowing(drawn, columns, INDENT)]
        return [self._plan_head(), *(f"{INDENT}{step}" for step in drawn)]

    def _plan_head(self) -> str:
        done = sum(step.status == "completed" for step in self._plan_steps)
        time = f" · {self._seconds} s" if self.is_terminal and self._seconds else ""
        return self.style("Plan", "bold") + self.style(f" {done}/{len(self._plan_steps)}{time}", "dim")

    def _step(self, step: s.PlanEntry, columns: int) -> str:
        return f"{self.style(MARKS[step.status], COLOURS[step.status])} {one_line(step.content, columns - 2)}"

    def _subagent(self, subagent: Subagent) -> None:
        status = "completed" if isinstance(subagent.state, s.IdleStateUpdate) else "in_progress"
        mark = self.style(MARKS[status], COLOURS[status])
        self.line(
            "notice", f"{mark} {one_line(subagent.title or subagent.session_id)} {self.style('(subagent)', 'dim')}"
        )

    def _state(self, event: s.SessionUpdate) -> None:
        if isinstance(event, s.CurrentModeUpdate):
            self.line("notice", self.style(f"mode: {one_line(event.current_mode_id)}", "dim"))

    def _summary(self, outcome: RunOutcome) -> str:
        """The summary line at the end, for a person."""
        words = []
        if self.is_terminal and self._model.agent and outcome.stop_reason:
            calls = self._calls.count
            words += [
                one_line(self._model.agent, 40),
                *([f"{calls} tool call{'s' * (calls != 1)}"] if calls else []),
            ]
            words += [f"{self._seconds} s"] if self._seconds else []
        if outcome.stop_reason not in (None, "end_turn"):
            words.append(one_line(outcome.stop_reason or "").replace("_", " "))
        if outcome.denied:
            words.append(f"{outcome.denied} denied")
        if self.is_terminal:
            if (usage := self._model.transcript.usage) is not None:
                words.append(f"{usage.used:,} of {usage.size:,} tokens")
                if usage.cost is not None:
                    words.append(f"{usage.cost.amount:.2f} {one_line(usage.cost.currency)}")
            elif outcome.usage is not None:
                words.append(f"{outcome.usage.total_tokens:,} tokens")
        return " · ".join(words)
