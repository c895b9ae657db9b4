"""A turn as text: what the agent says goes to one stream, everything else to another.

Lines are added and never changed, so that scrolling back shows what happened; but for one: where nothing has come
after the line of a tool call, its end takes the place of its beginning.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from ... import schema as s
from ...client import Client
from ...host.diffs import unified
from ...host.permissions import Option, Question
from ...transcript import UNFINISHED, Compaction, Message, PlanEntries, Subagent, ToolCallEntry, Transcript, TurnEnd
from ..legible import Lines, Stream, legible, one_line
from ..style import Style, is_terminal, size_of
from .outcome import Outcome
from .wording import doing, plain

INDENT = "  "
SHOWN_LINES = 12  # of what a tool has to say
DIFF_LINES = 400
MARKS = {"pending": "○", "in_progress": "▶", "completed": "✓", "failed": "✗", "cancelled": "■"}
COLOURS = {"pending": "dim", "in_progress": "cyan", "completed": "green", "failed": "red", "cancelled": "yellow"}
SEVERITIES = {"info": "blue", "warning": "yellow", "error": "red"}
DIFF_COLOURS = {"+": ["green"], "-": ["red"], "@": ["cyan"], "\\": ["dim"]}


class _Shown:
    """How much of a tool call has been shown."""

    def __init__(self) -> None:
        self.line = ""
        self.ended = False
        self.diffs: set[int] = set()  # by `_diffs`


class Screen:
    """Shows a turn as it happens, to a person or in a pipe."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        self._said, self._aside = said, aside
        self.style = Style.of(aside)
        self._is_terminal = is_terminal(aside)
        self._transcript = Transcript()
        self._speaking: Message | None = None
        self._stream: Stream | None = None  # makes what is said legible, where it is read on a terminal
        self._ends_line = True  # whether what was said last ends with a line break
        self._cwd = ""
        self._topic = ""  # what the last lines were about
        self._tools: dict[str, _Shown] = {}
        self._last_tool: str | None = None  # whose line is the last one there is
        self._steps: dict[str, str] = {}
        self._block: list[str] = []  # the steps of the plan that were shown last
        self._terminals: dict[str, tuple[str, Lines]] = {}
        self._printing: str | None = None  # the terminal whose output was shown last

    # What happens

    def began(self, client: Client, session_id: str, cwd: str) -> None:
        """A session is open; from here on paths in its directory are shown short."""
        self._cwd = cwd

    def recall(self, update: s.SessionUpdate) -> None:
        """Take something in that was shown long ago."""
        entry = self._transcript.apply(update)
        if isinstance(entry, Message):
            entry.blocks.clear()

    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        match self._transcript.apply(event):
            case Message(speaker="agent" | "thought") as message:
                self._speak(message)
            case ToolCallEntry() as call:
                self._tool(call)
            case PlanEntries(plan=plan) if plan is not None:
                self._plan(plan)
            case s.Notice(severity=severity, title=title, description=description):
                words = one_line(f"{title}: {description}" if description else title)
                self._line("notice", self.style(f"! {words}", SEVERITIES.get(severity, "yellow")))
            case Compaction(status=status) if isinstance(event, s.CompactionUpdate):
                self._line("notice", self.style(f"memory being shortened: {status}", "dim"))
            case Subagent() as subagent if isinstance(event, s.SubagentUpdate) and event.state:
                self._subagent(subagent)
            case TurnEnd():
                self._end_tools()
            case None:
                self._state(event)

    def asked_about(self, call: s.ToolCallUpdate) -> None:
        """The agent asks about a tool call: take in what it would do, which it may not have told yet."""
        fields = {name: getattr(call, name) for name in call.__struct_fields__}
        self._transcript.apply(s.ToolCallUpdated(**fields))

    def question(self, question: Question, keys: Mapping[str, Option]) -> None:
        """Put a question, to be answered with one of these keys."""
        style, indent = self.style, INDENT
        self._line("question", style(f"? {question.title}", "yellow", "bold"))
        self._lines(f"{indent}{line}" for line in question.text.split("\n"))
        self._lines(style(f"{indent}! {warning}", "yellow") for warning in question.warnings)
        if question.detail:
            self._lines(self._coloured(question.detail.split("\n")))  # all of it
            self._mark_diffs(question.tool_call_id)
        for key, option in keys.items():
            self._lines([f"{indent}{style(key, 'bold', 'green' if option.allows else 'red')}  {option.label}"])

    def prompt(self, words: str, again: bool = False) -> None:
        """Wait for a key on a line of its own, or on the one that waited for another."""
        if again:
            self._aside.write("\r\x1b[2K" if self._is_terminal else "\n")
        self._aside.write(f"{INDENT}{self.style(words, 'yellow')} ")
        self._aside.flush()

    def answered(self, words: str) -> None:
        """End the line that waited for a key."""
        self._aside.write(f"{words}\n")
        self._aside.flush()

    def asked(self, question: Question) -> None:
        """A question comes up; who can answer it is shown it by `question`."""
        self._make_room()

    def decided(self, event: Mapping[str, Any]) -> None:
        """Something was decided; what the user was not asked about and may not have expected is shown."""
        if event["decision"] == "deny" and not event.get("asked"):
            why = self.style(f"({event['why']})", "dim")
            self._line("denied", f"{self.style('✗', 'red')} denied: {doing(event)} {why}")

    def terminal(self, id: str, command: str) -> None:
        """A command was started; it is named where its output begins."""
        self._terminals[id] = (command, Lines())

    def output(self, id: str, text: str, stream: str) -> None:
        self._output(id, self._terminals[id][1].add(text))

    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None:
        self._output(id, self._terminals[id][1].end())
        self._name_terminal(id)
        if how is not None and (how.signal or how.exit_code):
            ended = f"ended by {how.signal}" if how.signal else f"exit {how.exit_code}"
            self._line("tool", self.style(f"{INDENT}  {ended}", "red"))
        del self._terminals[id]

    def remark(self, words: str) -> None:
        """Something to know, from us."""
        self._line("remark", self.style(words, "dim"))

    def ended(self, outcome: Outcome) -> None:
        """The run is over."""
        self._finish_message()
        if outcome.error:
            self._line("end", f"dragoman: {outcome.error}")
        elif words := self._summary(outcome):
            self._line("end", self.style(words, "dim"))

    # Speech

    def _speak(self, message: Message) -> None:
        is_aside = message.speaker == "thought"
        out = self._aside if is_aside else self._said
        if message is not self._speaking:
            self._finish_message()
            self._begin("thought" if is_aside else "message")
            self._speaking, self._ends_line = message, True
            self._stream = Stream() if out.isatty() or is_aside else None
        text = plain(message.blocks[-1])
        message.blocks.clear()  # what was shown need not be kept
        shown = self._stream.show(text) if self._stream else text
        out.write(self.style(shown, "dim") if is_aside else shown)
        out.flush()
        self._ends_line = shown.endswith("\n") if shown else self._ends_line

    def _finish_message(self) -> None:
        if self._speaking is not None:
            out = self._aside if self._speaking.speaker == "thought" else self._said
            out.write((self._stream.end() if self._stream else "") + ("" if self._ends_line else "\n"))
            out.flush()
            self._speaking = None

    def _make_room(self) -> None:
        """Something else is to be written: end the line, unless what is said goes where nobody sees the two."""
        if self._speaking is not None and (self._speaking.speaker == "thought" or self._said.isatty()):
            self._finish_message()

    # Tools

    def _tool(self, call: ToolCallEntry) -> None:
        shown = self._tools.setdefault(call.id, _Shown())
        if call.status == "pending" or shown.ended:
            return
        line = self._tool_line(call)
        shown.ended = call.status not in UNFINISHED
        in_place = self._is_terminal and self._last_tool == call.id
        if line != shown.line and (shown.ended or in_place or not shown.line):
            self._begin("tool")
            self._lines([f"\x1b[1A\r\x1b[2K{line}" if in_place else line])
            self._last_tool, shown.line = call.id, line
        self._show_diffs(call)
        if shown.ended:
            self._tell(call)

    def _end_tools(self) -> None:
        """Say of what was started and will not be finished that it was cancelled."""
        for call in self._transcript.tool_calls:
            if call.status == "cancelled" and call.id in self._tools:
                self._tool(call)

    def _tool_line(self, call: ToolCallEntry) -> str:
        columns, _ = size_of(self._aside)
        title = one_line(call.title or call.name or call.kind, columns - 2)
        return f"{self.style(MARKS[call.status], COLOURS[call.status])} {title}"

    def _mark_diffs(self, call_id: str) -> None:
        """A question has shown what a call would change."""
        for call in self._transcript.tool_calls:
            if call.id == call_id:
                self._tools.setdefault(call_id, _Shown()).diffs.update(_diffs(call))

    def _show_diffs(self, call: ToolCallEntry) -> None:
        shown = self._tools.setdefault(call.id, _Shown())
        for change, diff in _diffs(call).items():
            if change not in shown.diffs:
                shown.diffs.add(change)
                self._diff(diff)

    def _diff(self, diff: s.Diff) -> None:
        new = " (new)" if diff.old_text is None else ""
        path = diff.path.removeprefix(f"{self._cwd}/") if self._cwd else diff.path
        self._line("tool", self.style(f"{INDENT}{one_line(path)}{new}", "bold"))
        lines = unified(diff).split("\n")
        self._lines(self._coloured(map(legible, lines[:DIFF_LINES])))
        self._lines(self._more(len(lines) - DIFF_LINES))

    def _coloured(self, lines: Iterable[str]) -> list[str]:
        """The lines of a diff, which can be shown as they are, in its colours."""
        return [f"{INDENT}{self.style(line, *DIFF_COLOURS.get(line[:1], ()))}" for line in lines]

    def _tell(self, call: ToolCallEntry) -> None:
        """What a tool had to say for itself."""
        texts = [plain(content.content) for content in call.content if isinstance(content, s.Content)]
        lines = [line for text in texts for line in text.rstrip().split("\n") if text.strip()]
        colour = "red" if call.status == "failed" else "dim"
        if lines:
            self._begin("tool")
        self._lines(self.style(f"{INDENT}{legible(line)}", colour) for line in lines[:SHOWN_LINES])
        self._lines(self._more(len(lines) - SHOWN_LINES))

    def _more(self, count: int) -> list[str]:
        return [self.style(f"{INDENT}… {count} more lines", "dim")] if count > 0 else []

    def _output(self, id: str, lines: Sequence[str]) -> None:
        if lines:
            self._name_terminal(id)
        for line in lines:
            self._line("tool", f"{INDENT}{self.style('│', 'dim')} {line}")

    def _name_terminal(self, id: str) -> None:
        """Say whose output follows, where it is not that of the command before."""
        if id != self._printing:
            columns, _ = size_of(self._aside)
            command = one_line(self._terminals[id][0], columns - 4)
            self._line("tool", f"{INDENT}{self.style('$', 'cyan')} {command}")
            self._printing = id

    # The rest

    def _plan(self, plan: s.Plan | s.PlanUpdateContent) -> None:
        match plan:
            case s.Plan(entries=steps) | s.PlanItems(entries=steps):
                changed = {step.content for step in steps if self._steps.get(step.content) != step.status}
                self._steps = {step.content: step.status for step in steps}
                if changed:
                    self._plan_steps(steps, changed)
            case s.PlanFile(uri=uri):
                self._line("plan", f"{self.style('Plan', 'bold')} {one_line(uri)}")
            case s.PlanMarkdown(content=content):
                self._line("plan", self.style("Plan", "bold"))
                self._lines(f"{INDENT}{legible(line)}" for line in content.rstrip().split("\n"))

    def _plan_steps(self, steps: Sequence[s.PlanEntry], changed: set[str]) -> None:
        """Show the steps that changed; a plan that is still the last thing on a terminal is drawn anew."""
        (columns, height), goes_on = size_of(self._aside), self._topic == "plan"
        redrawn = len(self._block) + 1 if goes_on and self._is_terminal else 0
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
        self._begin("plan")
        if redrawn:
            self._aside.write(f"\x1b[{redrawn}A\r")
            lines = [f"\x1b[2K{line}" for line in lines]
        self._lines(lines)
        if redrawn:
            self._aside.write("\x1b[J")
        self._block = [step.content for step in shown]

    def _subagent(self, subagent: Subagent) -> None:
        status = "completed" if isinstance(subagent.state, s.IdleStateUpdate) else "in_progress"
        mark = self.style(MARKS[status], COLOURS[status])
        self._line(
            "notice", f"{mark} {one_line(subagent.title or subagent.session_id)} {self.style('(subagent)', 'dim')}"
        )

    def _state(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        if isinstance(event, s.CurrentModeUpdate):
            self._line("notice", self.style(f"mode: {one_line(event.current_mode_id)}", "dim"))

    def _summary(self, outcome: Outcome) -> str:
        """What is worth a line at the end, to a person."""
        words = []
        if outcome.stop_reason not in (None, "end_turn"):
            words.append(one_line(outcome.stop_reason or "").replace("_", " "))
        if outcome.denied:
            words.append(f"{outcome.denied} denied")
        if self._is_terminal:
            if (usage := self._transcript.usage) is not None:
                words.append(f"{usage.used:,} of {usage.size:,} tokens")
                if usage.cost is not None:
                    words.append(f"{usage.cost.amount:.2f} {one_line(usage.cost.currency)}")
            elif outcome.usage is not None:
                words.append(f"{outcome.usage.total_tokens:,} tokens")
        return " · ".join(words)

    # Writing

    def _begin(self, topic: str) -> None:
        """What follows is about something else: end the line, and leave one empty where a person reads."""
        self._make_room()
        self._last_tool = None
        if self._is_terminal and self._topic and self._topic != topic:
            self._aside.write("\n")
        self._topic = topic

    def _line(self, topic: str, line: str) -> None:
        self._begin(topic)
        self._lines([line])

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._aside.write(f"{line}\n")
        self._aside.flush()


def _diffs(call: ToolCallEntry) -> dict[int, s.Diff]:
    """What a call changes, by what stays the same when it is told again."""
    diffs = [content for content in call.content if isinstance(content, s.Diff)]
    return {hash((diff.path, diff.old_text, diff.new_text)): diff for diff in diffs}
