"""A turn as text: what the agent says goes to one stream, everything else to another.

Lines are added and never changed, so that scrolling back shows what happened; but for one: where nothing has come
after the line of a tool call, its end takes the place of its beginning.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from ... import schema as s
from ...client.client import Client
from ...host.permissions import Option, Question
from ...roles import offered
from ...transcript import Compaction, Message, PlanEntries, Subagent, ToolCallEntry, Transcript, TurnEnd
from ..legible import legible, one_line
from ..output import complaint, marked
from ..style import size_of
from .calls import COLOURS, MARKS, ToolCallLines
from .page import INDENT, Page
from .terms import RunOutcome
from .wording import doing, is_worth_a_line

SEVERITIES = {"info": "blue", "warning": "yellow", "error": "red"}
GOING_ON = ("session_capabilities.resume", "load_session")


class Screen(Page):
    """Shows a turn as it happens, to a person or in a pipe."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        super().__init__(said, aside)
        self._transcript = Transcript()
        self._calls = ToolCallLines(self, self._transcript)
        self._steps: dict[str, str] = {}
        self._block: list[str] = []  # the steps of the plan that were shown last
        self._resumable: str | None = None  # the session, where it can be gone on with later

    # What happens

    def starting(self, agent: str, seconds: int) -> None:
        """The agent has been starting for so long: on a terminal a line that counts, elsewhere one now and then."""
        words = self.style(f"starting {one_line(agent, 60)} … {seconds} s", "dim")
        if self.is_terminal:
            self.count(words)
        elif is_worth_a_line(seconds):
            self.lines([words])

    def began(self, client: Client, session_id: str, cwd: str) -> None:
        """A session is open; from here on paths in its directory are shown short."""
        self.stop_counting()
        self._calls.cwd = cwd
        if any(offered(client.agent_capabilities, name) for name in GOING_ON):
            self._resumable = session_id

    def recall(self, update: s.SessionUpdate) -> None:
        """Take something in that was shown long ago."""
        entry = self._transcript.apply(update)
        if isinstance(entry, Message):
            entry.blocks.clear()

    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        match self._transcript.apply(event):
            case Message(speaker="agent" | "thought") as message:
                self.speak(message)
            case ToolCallEntry() as call:
                self._calls.show(call, event)
            case PlanEntries(plan=plan) if plan is not None:
                self._plan(plan)
            case s.Notice(severity=severity, title=title, description=description):
                words = one_line(f"{title}: {description}" if description else title)
                self.line("notice", self.style(f"! {words}", SEVERITIES.get(severity, "yellow")))
            case Compaction(status=status) if isinstance(event, s.CompactionUpdate):
                self.line("notice", self.style(f"memory being shortened: {one_line(status)}", "dim"))
            case Subagent() as subagent if isinstance(event, s.SubagentUpdate) and event.state:
                self._subagent(subagent)
            case TurnEnd():
                self._calls.end()
            case None:
                self._state(event)

    def asked_about(self, request: s.RequestPermissionRequest) -> None:
        """The agent asks about a tool call: take in what it would do, which it may not have told yet."""
        call = request.tool_call
        fields = {name: getattr(call, name) for name in call.__struct_fields__}
        self._transcript.apply(s.ToolCallUpdated(**fields))

    def question(self, question: Question, keys: Mapping[str, Option]) -> None:
        """Put a question, to be answered with one of these keys."""
        style, indent = self.style, INDENT
        self.line("question", style(f"? {question.title}", "yellow", "bold"))
        self.lines(f"{indent}{line}" for line in question.text.split("\n"))
        self.lines(style(f"{indent}! {warning}", "yellow") for warning in question.warnings)
        if question.detail:
            self.lines(self._calls.coloured(question.detail.split("\n")))  # all of it
            self._calls.mark_diffs(question.tool_call_id)
        for key, option in keys.items():
            self.lines([f"{indent}{style(key, 'bold', 'green' if option.allows else 'red')}  {option.label}"])

    def prompt(self, words: str, again: bool = False) -> None:
        """Wait for a key on a line of its own, or on the one that waited for another."""
        if again:
            self.aside.write(marked("\r\x1b[2K") if self.is_terminal else "\n")
        self.aside.write(f"{INDENT}{self.style(words, 'yellow')} ")
        self.aside.flush()

    def answered(self, words: str) -> None:
        """End the line that waited for a key."""
        self.aside.write(f"{words}\n")
        self.aside.flush()

    def asked(self, question: Question) -> None:
        """A question comes up; who can answer it is shown it by `question`."""
        self.make_room()

    def decided(self, event: Mapping[str, Any]) -> None:
        """Something was decided; what the user was not asked about and may not have expected is shown."""
        if event["decision"] == "deny" and event["operation"] == "claim":
            self._calls.denied(event["tool_call"])
        if event["decision"] == "deny" and not event.get("asked"):
            why = self.style(f"({event['why']})", "dim")
            self.line("denied", f"{self.style('✗', 'red')} denied: {doing(event)} {why}")
        elif event["operation"] == "claim" and event["decision"] == "allow" and not event.get("asked"):
            self._calls.allowed(event["tool_call"])

    def terminal(self, id: str, command: str) -> None:
        self._calls.terminal(id, command)

    def output(self, id: str, text: str, stream: str) -> None:
        self._calls.output(id, text)

    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None:
        self._calls.terminal_ended(id, how)

    def remark(self, words: str) -> None:
        """Something to know, from us."""
        self.line("remark", self.style(one_line(words), "dim"))

    def ended(self, outcome: RunOutcome) -> None:
        """The run is over."""
        self.finish_message()
        if outcome.error:
            self.line("end", complaint(outcome.error))
        elif words := self._summary(outcome):
            self.line("end", self.style(words, "dim"))
        if self._resumable and outcome.stop_reason:
            again = f"to go on with this session: --session {shlex.quote(one_line(self._resumable))}"
            self.line("end", self.style(again, "dim"))

    # The rest

    def _plan(self, plan: s.Plan | s.PlanUpdateContent) -> None:
        match plan:
            case s.Plan(entries=steps) | s.PlanItems(entries=steps):
                changed = {step.content for step in steps if self._steps.get(step.content) != step.status}
                self._steps = {step.content: step.status for step in steps}
                if changed:
                    self._plan_steps(steps, changed)
            case s.PlanFile(uri=uri):
                self.line("plan", f"{self.style('Plan', 'bold')} {one_line(uri)}")
            case s.PlanMarkdown(content=content):
                self.line("plan", self.style("Plan", "bold"))
                self.lines(f"{INDENT}{legible(line)}" for line in content.rstrip().split("\n"))

    def _plan_steps(self, steps: Sequence[s.PlanEntry], changed: set[str]) -> None:
        """Show the steps that changed; a plan that is still the last thing on a terminal is drawn anew."""
        (columns, height), goes_on = size_of(self.aside), self.topic == "plan"
        redrawn = len(self._block) + 1 if goes_on and self.is_terminal else 0
        redrawn = redrawn if redrawn < height else 0  # what has scrolled away stays as it is
        wanted = {*changed, *self._block} if redrawn else changed
        shown = [step for step in steps if step.content in wanted]
        lines = []
        if redrawn or not goes_on:
            done = sum(step.status == "completed" for step in steps)
            lines = [self.style("Plan", "bold") + self.style(f" {done}/{len(steps)}", "dim")]
        for step in shown:
            mark = self.style(MARKS[step.status], COLOURS[step.status])
            lines.append(f"{INDENT}{mark} {one_line(step.content, columns - 4)}")
        self.begin("plan")
        if redrawn:
            self.aside.write(marked(f"\x1b[{redrawn}A\r"))
            lines = [marked("\x1b[2K") + line for line in lines]
        self.lines(lines)
        if redrawn:
            self.aside.write(marked("\x1b[J"))
        self._block = [step.content for step in shown]

    def _subagent(self, subagent: Subagent) -> None:
        status = "completed" if isinstance(subagent.state, s.IdleStateUpdate) else "in_progress"
        mark = self.style(MARKS[status], COLOURS[status])
        self.line(
            "notice", f"{mark} {one_line(subagent.title or subagent.session_id)} {self.style('(subagent)', 'dim')}"
        )

    def _state(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        if isinstance(event, s.CurrentModeUpdate):
            self.line("notice", self.style(f"mode: {one_line(event.current_mode_id)}", "dim"))

    def _summary(self, outcome: RunOutcome) -> str:
        """What is worth a line at the end, to a person."""
        words = []
        if outcome.stop_reason not in (None, "end_turn"):
            words.append(one_line(outcome.stop_reason or "").replace("_", " "))
        if outcome.denied:
            words.append(f"{outcome.denied} denied")
        if self.is_terminal:
            if (usage := self._transcript.usage) is not None:
                words.append(f"{usage.used:,} of {usage.size:,} tokens")
                if usage.cost is not None:
                    words.append(f"{usage.cost.amount:.2f} {one_line(usage.cost.currency)}")
            elif outcome.usage is not None:
                words.append(f"{outcome.usage.total_tokens:,} tokens")
        return " · ".join(words)
