"""Shows tool calls on a page: a line for each, its command and changes, and the output of its terminals.

On a terminal, a running call is a live line; it is written when the call ends, with its changes.
"""

from collections.abc import Iterable, Sequence

from ... import schema as s
from ...foundation.columns import width
from ...host.diffs import unified
from ...host.permissions.subjects import command_in
from ...transcript import UNFINISHED, ToolCallEntry
from ..changes import counted, in_colours, numbered
from ..legible import CommandLines, legible, one_line
from ..model.agent_terminals import told_of
from ..model.conversation import ConversationModel
from .page import INDENT, Page
from .wording import plain, where

SHOWN_LINES = 12  # lines of a tool's output
DIFF_LINES = 400
MAX_PRINTED = 2000  # lines of a terminal that are remembered
MARKS = {"pending": "○", "in_progress": "▶", "completed": "✓", "failed": "✗", "cancelled": "■"}
COLOURS = {"pending": "dim", "in_progress": "cyan", "completed": "green", "failed": "red", "cancelled": "yellow"}
MOST_LIVE = 8  # running calls with a live line each


class _Shown:
    """How much of a tool call has been shown."""

    def __init__(self) -> None:
        self.line = ""
        self.ended = False
        self.is_due = False  # whether it is shown although it is pending
        self.is_denied = False
        self.command = ""  # the command that it names
        self.diffs: set[int] = set()  # by `_diffs`


class ToolCallLines:
    """Shows the tool calls of a conversation; paths in the session's directory are shortened."""

    def __init__(self, page: Page, model: ConversationModel) -> None:
        self._page, self._model = page, model
        self._shown: dict[str, _Shown] = {}
        self._terminals: dict[str, tuple[str, CommandLines]] = {}
        self._printing: str | None = None  # the terminal with the latest shown output
        self._printed: dict[str, set[str]] = {}  # lines printed by terminals, by their ids
        self._running: dict[str, ToolCallEntry] = {}  # calls with a live line
        self.count = 0  # how many calls have ended

    def allowed(self, call_id: str) -> None:
        """Show a call that was allowed without a question, because some agents send no update about it."""
        for call in self._model.transcript.tool_calls:
            if call.id == call_id:
                self._known(call_id).is_due = True
                self._tool(call)

    def denied(self, call_id: str) -> None:
        """Note that a call was denied, so that its pending state is not reported."""
        self._known(call_id).is_denied = True

    def mark_diffs(self, call_id: str) -> None:
        """Note that a question has shown the changes of a call."""
        for call in self._model.transcript.tool_calls:
            if call.id == call_id:
                self._known(call_id).diffs.update(_diffs(call))

    def live(self) -> list[str]:
        """The live lines of running calls."""
        running = list(self._running.values())
        lines = [self._tool_line(call) for call in running[:MOST_LIVE]]
        left = len(running) - len(lines)
        return [*lines, self._page.style(f"{INDENT}… and {left} more", "dim")] if left else lines

    def end(self) -> None:
        """Show the calls that were begun and will not be finished."""
        self._running.clear()
        for call in self._model.transcript.tool_calls:
            shown = self._shown.get(call.id)
            if shown is None or (shown.is_denied and call.status == "pending"):
                continue
            if call.status == "cancelled" or not shown.line:
                shown.is_due = True
                self._tool(call)

    def _known(self, call_id: str) -> _Shown:
        return self._shown.setdefault(call_id, _Shown())

    def terminal(self, id: str, command: str) -> None:
        """Note a started command, which is named where its output begins."""
        self._terminals[id] = (command, CommandLines())

    def output(self, id: str, text: str) -> None:
        self._output(id, self._terminals[id][1].add(text))

    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None:
        self._output(id, self._terminals[id][1].end())
        self._name_terminal(id)
        if how is not None and (how.signal or how.exit_code):
            ended = f"ended by {how.signal}" if how.signal else f"exit {how.exit_code}"
            self._page.line("tool", self._page.style(f"{INDENT}  {ended}", "red"))
        del self._terminals[id]

    def show(self, call: ToolCallEntry, event: s.SessionUpdate) -> None:
        """Show an update of a call, and of a terminal that the agent runs for it."""
        told = list(told_of(event)) if isinstance(event, s.ToolCall | s.ToolCallUpdate) else []
        shown = self._known(call.id)
        if told and (command := command_in(call.raw_input, call.kind, self._model.cwd)):
            shown.command = command.shown  # the terminal's output names it
        if told and not shown.line:
            self._tool(call, is_shown=True)
        for printed in told:
            if printed.id not in self._terminals:
                self.terminal(printed.id, shown.command or call.title)
            if printed.text:
                self.output(printed.id, printed.text)
            if printed.ended is not None:
                self.terminal_ended(printed.id, printed.ended)
        self._tool(call)

    def _tool(self, call: ToolCallEntry, *, is_shown: bool = False) -> None:
        """Show the state of a call; `is_shown`: even if it still runs, because its output follows below."""
        shown = self._known(call.id)
        if shown.ended or (call.status == "pending" and not shown.is_due):
            return
        shown.ended = call.status not in UNFINISHED
        if self._page.is_terminal and not (shown.ended or shown.is_due or is_shown):
            if not shown.line:
                self._running[call.id] = call
                self._page.make_room()
                self._page.draw()
            return
        self._running.pop(call.id, None)
        line = self._tool_line(call)
        if line != shown.line and (shown.ended or not shown.line):
            self._page.line("tool", line)
            shown.line = line
        self._show_command(call)
        self._show_diffs(call)
        if shown.ended:
            self.count += 1
            self._tell(call)

    def _tool_line(self, call: ToolCallEntry) -> str:
        columns, style = self._page.columns, self._page.style
        title = one_line(call.title or call.name or call.kind, columns - 2)
        line = f"{style(MARKS[call.status], COLOURS[call.status])} {title}"
        place = self._place(call, title)
        return f"{line}{style(place, 'dim')}" if width(title) + width(place) + 2 <= columns else line

    def _place(self, call: ToolCallEntry, title: str) -> str:
        """The first line of a file that a call concerns, unless its title names it."""
        location = next((each for each in call.locations if each.line is not None), None)
        if location is None:
            return ""
        place = one_line(where(location, self._model.cwd))
        path = one_line(where(s.ToolCallLocation(path=location.path), self._model.cwd))
        said = path in title and str(location.line) in title.replace(path, "")  # for example as "line 3"
        if place in title or (said and place == f"{path}:{location.line}"):
            return ""
        return place.removeprefix(path) if title.endswith(path) else f"  {place}"

    def _show_command(self, call: ToolCallEntry) -> None:
        """Show the command of a call, unless its title or a terminal of ours names it."""
        command = command_in(call.raw_input, call.kind, self._model.cwd)
        has_terminal = any(isinstance(content, s.Terminal) for content in call.content)
        shown = self._known(call.id)
        if command is None or has_terminal or command.shown in (shown.command, call.title):
            return
        shown.command = command.shown
        if command.shown not in call.title:
            self._name_command(command.shown)

    def _show_diffs(self, call: ToolCallEntry) -> None:
        shown = self._known(call.id)
        for change, diff in _diffs(call).items():
            if change not in shown.diffs:
                shown.diffs.add(change)
                self._diff(diff)

    def _diff(self, diff: s.Diff) -> None:
        new = " (new)" if diff.old_text is None else ""
        lines = unified(diff).split("\n")
        count = self._page.style(f"  {counted(lines)}", "dim") if self._page.is_terminal else ""
        name = self._page.style(f"{INDENT}{one_line(self.short(diff.path))}{new}", "bold")
        self._page.line("tool", f"{name}{count}")
        self._page.lines(self.coloured(map(legible, lines[:DIFF_LINES])))
        self._page.lines(self._more(len(lines) - DIFF_LINES))

    def short(self, path: str) -> str:
        """A path, relative to the session's directory if it is in there."""
        return path.removeprefix(f"{self._model.cwd}/") if self._model.cwd else path

    def coloured(self, lines: Iterable[str]) -> Iterable[str]:
        """The lines of a diff, which are safe to show, in colours, and on a terminal with their numbers."""
        if self._page.is_terminal:
            return numbered(lines, self._page.style, INDENT, self._page.columns)
        return in_colours(lines, self._page.style, INDENT)

    def _tell(self, call: ToolCallEntry) -> None:
        """Show the texts of a tool call."""
        texts = [plain(content.content) for content in call.content if isinstance(content, s.Content)]
        lines = [line for text in texts for line in text.rstrip().split("\n") if text.strip()]
        lines = self._unprinted(call, lines)
        colour = "red" if call.status == "failed" else "dim"
        if lines:
            self._page.begin("tool")
        self._page.lines(self._page.style(f"{INDENT}{legible(line)}", colour) for line in lines[:SHOWN_LINES])
        self._page.lines(self._more(len(lines) - SHOWN_LINES))

    def _unprinted(self, call: ToolCallEntry, lines: list[str]) -> list[str]:
        """The lines that the terminals of a call have not printed already."""
        ids = [content.terminal_id for content in call.content if isinstance(content, s.Terminal)]
        printed = {line for id in ids for key in (id, f"{call.id} {id}") for line in self._printed.get(key, ())}
        if not printed:
            return lines
        left = [line for line in lines if line.strip() and line.strip() not in printed]
        return [] if all(line.startswith("```") for line in left) else left

    def _more(self, count: int) -> list[str]:
        return [self._page.style(f"{INDENT}… {count} more lines", "dim")] if count > 0 else []

    def _output(self, id: str, lines: Sequence[str]) -> None:
        if lines:
            self._name_terminal(id)
        printed = self._printed.setdefault(id, set())
        for line in lines:
            self._page.line("tool", f"{INDENT}{self._page.style('│', 'dim')} {line}")
            if len(printed) < MAX_PRINTED:
                printed.add(line.strip())

    def _name_terminal(self, id: str) -> None:
        """Name the command whose output follows, unless it is the same as before."""
        if id != self._printing:
            self._name_command(self._terminals[id][0])
            self._printing = id

    def _name_command(self, command: str) -> None:
        shown = one_line(command, self._page.columns - 4)
        self._page.line("tool", f"{INDENT}{self._page.style('$', 'cyan')} {shown}")


def _diffs(call: ToolCallEntry) -> dict[int, s.Diff]:
    """The changes of a call, as a key that stays the same when they are sent again."""
    diffs = [content for content in call.content if isinstance(content, s.Diff)]
    return {hash((diff.path, diff.old_text, diff.new_text)): diff for diff in diffs}
