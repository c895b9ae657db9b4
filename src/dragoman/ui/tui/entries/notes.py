"""Other lines of a transcript: notices, decisions, ends of turns, subagents."""

from textual.content import Content
from textual.widgets import Static

from .... import schema as s
from ....transcript import Compaction, PlanEntries, SessionNote, Subagent, TurnEnd, Unknown
from ...model.parts import SettledQuestion, ShownEntry, Span
from ..words import COLOURS, SIGNS, amount, duration, line, lines, shown
from .messages import block_shown

SEVERITIES = {"info": ("i", "$moving"), "warning": ("!", "$warn"), "error": ("✗", "$bad")}
COMPACTING = {"in_progress": "shortening the context", "completed": "context shortened"}
ENDS = {
    "cancelled": ("■ cancelled", "$warn"),
    "refusal": ("✗ the agent refused to go on", "$bad"),
    "max_tokens": ("! the agent ran out of tokens", "$warn"),
    "max_turn_requests": ("! the agent ran out of requests for one turn", "$warn"),
    "error": ("✗ the turn failed", "$bad"),
}


class NoteLine(Static):
    """Shows an entry as a line."""

    DEFAULT_CSS = "NoteLine { height: auto; width: 1fr; } NoteLine.alone { margin-bottom: 1; }"

    def __init__(self, entry: ShownEntry, span: Span) -> None:
        super().__init__()
        self._entry, self._span = entry, span
        self.set_class(isinstance(entry, TurnEnd | s.Notice), "alone")

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw the current text; an empty line is hidden."""
        content = _told(self._entry, self._span)
        self.display = bool(content.plain)
        self.update(content)


def _told(entry: ShownEntry, span: Span) -> Content:
    match entry:
        case s.Notice(severity=severity, title=title, description=description):
            sign, colour = SEVERITIES.get(severity, SEVERITIES["info"])
            told = Content.assemble("\n  ", shown(description, "$quiet")) if description else Content("")
            return Content.assemble((f"{sign} ", colour), shown(title, colour), told)
        case SettledQuestion():
            return _settled(entry)
        case TurnEnd():
            return _end(entry, span)
        case Compaction(status=status):
            took = duration(span.seconds)
            doing = COMPACTING.get(status, f"shortening the context: {status}")
            error = Content.assemble("  ", line(entry.error, 80, "$bad")) if entry.error else Content("")
            mark = Content.styled(SIGNS.get(status, "▸") + " ", COLOURS.get(status, "$quiet"))
            return Content.assemble(mark, line(doing, style="$quiet"), (f"  {took}", "$quiet"), error)
        case Subagent(title=title, session_id=id, state=state, description=description):
            status = "completed" if isinstance(state, s.IdleStateUpdate) else "in_progress"
            about = Content.assemble("  ", line(description, 80, "$quiet")) if description else Content("")
            head = (f"{SIGNS[status]} ", COLOURS[status])
            return Content.assemble(head, ("Agent  ", "bold"), line(title or id, 80), about)
        case SessionNote(sender=sender, recipient=recipient):
            way = line(f"{sender or 'a session'} → {recipient or 'this session'}", 60, "$quiet")
            return Content.assemble(("✉ ", "$moving"), way, Content("\n"), lines(map(block_shown, entry.blocks)))
        case Unknown():
            return Content.styled("· an update of a kind this version does not know", "$quiet")
        case PlanEntries():
            return Content("")  # the side panel shows the plan
    return Content("")


def _settled(entry: SettledQuestion) -> Content:
    sign, colour = {True: ("✓", "$good"), False: ("✗", "$bad"), None: ("·", "$quiet")}[entry.allowed]
    answer = entry.answer or ("denied" if entry.allowed is False else "withdrawn")
    words = entry.title.rstrip("?") if not entry.text else f"{entry.title} {entry.text.partition(chr(10))[0]}"
    why = Content.assemble("  ", line(f"({entry.why})", 80, "$quiet")) if entry.why else Content("")
    return Content.assemble(
        (f"{sign} ", colour), line(answer, 40, colour), ("  ", ""), line(words, 90, "$quiet"), why
    )


def _end(entry: TurnEnd, span: Span) -> Content:
    if entry.stop_reason == "end_turn":
        return Content("")
    words, colour = ENDS.get(entry.stop_reason, (f"■ {entry.stop_reason}", "$warn"))
    error = Content.assemble(": ", shown(entry.error, "$bad")) if entry.error else Content("")
    used = Content.styled(f"  {amount(entry.usage.total_tokens)} tokens", "$quiet") if entry.usage else Content("")
    return Content.assemble(line(words, style=colour), error, used)
