"""A tool call as a card: one line about the call, with its changes, output and text below."""

import msgspec
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from .... import schema as s
from ....transcript import UNFINISHED, ToolCallEntry
from ...headless.wording import where
from ...model.conversation import ConversationModel
from ...model.terminals import TerminalView
from ..words import COLOURS, SIGNS, duration, line, shown
from .attachments import widget_of
from .cells import TerminalCells
from .diff import DiffView, Layout, counted, rows_of
from .folding import Folded
from .messages import block_shown

VERBS = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Move",
    "search": "Search",
    "execute": "Run",
    "think": "Think",
    "fetch": "Fetch",
    "switch_mode": "Mode",
    "other": "Tool",
}
MAX_RAW = 20_000  # characters shown of an input or output
MOST_LINES = 12  # shown of a tool's text, unless the user opened the card


class ToolCard(Folded):
    """Shows a tool call; the card is open while the call runs or if it failed, and folds when it is done."""

    def __init__(self, call: ToolCallEntry, model: ConversationModel, layout_kind: Layout) -> None:
        super().__init__()
        self.call, self._model, self._layout = call, model, layout_kind
        self._span = model.span(call)
        self._drawn: object = None  # the state that the body shows
        self._cells: list[TerminalCells] = []
        self._columns = 80  # until the first resize

    def on_mount(self) -> None:
        self.draw()

    def set_layout(self, kind: Layout) -> None:
        """Show the changes in another layout."""
        self._layout = kind
        for view in self.query(DiffView):
            view.set_layout(kind)

    def draw(self) -> None:
        call = self.call
        has_more = bool(call.content) or call.raw_output is not s.UNSET
        is_news = call.status == "failed" or (call.status == "in_progress" and has_more)
        if not self._by_hand:
            self.set_class(is_news and has_more, "open")
        self.head.update(self._line())
        if self.is_open:
            self._draw_body()

    def on_resize(self) -> None:
        if self.size.width != self._columns:
            self._columns = self.size.width
            self.head.update(self._line())

    def _line(self) -> Content:
        """The card's line: verb, title, figures at the right; the title is whole if the user opened the card."""
        call, figures = self.call, Content("  ").join(self._figures())
        sign, colour = SIGNS[call.status], COLOURS[call.status]
        verb = VERBS.get(call.kind, "Tool")
        left = Content.assemble((f"{sign} ", colour), (verb.ljust(7), "bold"))
        title = call.title or call.name or call.kind
        title = title[len(verb) :].strip() if title.lower().startswith(f"{verb.lower()} ") else title
        room = max(self._columns - left.cell_length - figures.cell_length - 2, 12)
        left += line(title, None if self._by_hand and self.is_open else room)
        place = next((where(each, self._model.cwd) for each in call.locations), "")
        if place and place not in title and (name := place.partition(":")[0]) and name not in title:
            told = Content.assemble("  ", line(place, 60, "$quiet"))
            left += told if left.cell_length + told.cell_length + figures.cell_length < self._columns else ""
        return Content.assemble(left, " " * max(self._columns - left.cell_length - figures.cell_length, 2), figures)

    def _figures(self) -> list[Content]:
        """The figures of a call: added and removed lines, how the call ended, how long it took."""
        found = [
            counted([row for diff in diffs for row in rows_of(diff)])
            for diffs in [[content for content in self.call.content if isinstance(content, s.Diff)]]
            if diffs
        ]
        if self.call.status in ("failed", "cancelled"):
            found.append(Content.styled(self.call.status, COLOURS[self.call.status]))
        if self.call.status not in UNFINISHED and (took := duration(self._span.seconds)):
            found.append(Content.styled(took, "$quiet"))
        return found

    def terminals(self) -> list[TerminalView]:
        """The terminals of this call: the host's and the agent's own."""
        views = self._model.terminals.views
        ids = [content.terminal_id for content in self.call.content if isinstance(content, s.Terminal)]
        own = [id for id in views if id.startswith(f"{self.call.id} ")]
        return [views[id] for id in dict.fromkeys([*ids, *own]) if id in views]

    def draw_terminals(self) -> None:
        """Draw the current output of the terminals."""
        if self.is_open:
            if len(self._cells) != len(self.terminals()):
                self._draw_body()
            for cells in self._cells:
                cells.draw()

    def _draw_body(self) -> None:
        terminals = self.terminals()
        state = (list(self.call.content), self.call.raw_input, self.call.raw_output, self._by_hand, len(terminals))
        if state == self._drawn or not self.body.is_attached:
            return
        self._drawn = state
        self._cells = [TerminalCells(view, is_whole=self._by_hand) for view in terminals]
        self.body.remove_children()
        self.body.mount_all([*self._parts(), *self._cells])

    def _parts(self) -> list[Widget]:
        call, cwd = self.call, self._model.cwd
        parts = list[Widget]()
        for content in call.content:
            match content:
                case s.Diff(path=path):
                    new = " (new file)" if content.old_text is None else ""
                    name = path.removeprefix(f"{cwd}/") if cwd else path
                    parts.append(Static(Content.assemble(line(name, style="bold"), (new, "$quiet"))))
                    parts.append(DiffView(rows_of(content), self._layout))
                case s.Content(content=block):
                    is_text = isinstance(block, s.TextContent)
                    parts.append(Static(self._said(block_shown(block))) if is_text else widget_of(block, cwd))
        if self._by_hand:
            for name, value in (("input", call.raw_input), ("output", call.raw_output)):
                if value is not s.UNSET and value is not None:
                    parts.append(Static(Content.styled(name, "$quiet")))
                    parts.append(Static(shown(_json(value))))
        return parts

    def _said(self, words: Content) -> Content:
        """The text of a tool, limited to `MOST_LINES` unless the user opened the card."""
        each = words.split("\n", allow_blank=True)
        if self._by_hand or len(each) <= MOST_LINES:
            return words
        more = Content.styled(f"… {len(each) - MOST_LINES} more lines", "$quiet")
        return Content("\n").join([*each[:MOST_LINES], more])


def _json(value: object) -> str:
    if isinstance(value, str):
        return value[:MAX_RAW]
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()[:MAX_RAW]
