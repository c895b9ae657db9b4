"""The transcript: entries in order; it follows the end until the user scrolls up."""

from collections.abc import Iterable, Sequence

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ... import schema as s
from ...transcript import Message, ToolCallEntry, TurnEnd
from ..model.conversation import ConversationModel
from ..model.parts import OwnCommand, ShownEntry
from .entries.attachments import AttachmentLine
from .entries.command import CommandCard
from .entries.diff import Layout
from .entries.folding import Folded
from .entries.messages import AgentMessage, ThoughtLine, UserMessage
from .entries.notes import NoteLine
from .entries.tool import ToolCard

MOST = 200  # entries on the screen at once; a key shows earlier ones again
MORE = 100  # earlier entries shown at a time

EntryWidget = UserMessage | AgentMessage | ThoughtLine | ToolCard | CommandCard | NoteLine


class TranscriptView(VerticalScroll, can_focus=True):
    """Shows the entries of a conversation; only the latest have widgets, until the user asks for earlier ones."""

    DEFAULT_CSS = """
    TranscriptView { width: 1fr; height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    TranscriptView > .earlier { color: $quiet; width: 1fr; margin-bottom: 1; display: none; }
    TranscriptView.cut > .earlier { display: block; }
    TranscriptView > .apart { margin: 1 0; }
    """
    BINDINGS = [
        Binding("home", "to_beginning", "beginning", show=False),
        Binding("end", "to_end", "end", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
    ]

    def __init__(self, model: ConversationModel) -> None:
        super().__init__()
        self._model = model
        self._shown: dict[int, EntryWidget] = {}  # by the place of the entry
        self._first = 0  # the place of the first entry on the screen
        self._earlier = Static(Content(""), classes="earlier")
        self.layout_kind: Layout = "auto"

    def compose(self) -> "list[Widget]":
        return [self._earlier]

    def on_mount(self) -> None:
        self.anchor()

    def begin_anew(self) -> None:
        """Replace the shown entries with the model's current entries."""
        self._shown.clear()
        self.remove_children(".entry")
        self._first = max(len(self._model.entries) - MOST, 0)
        self._show_places(range(self._first, len(self._model.entries)))
        self.anchor()

    def paint(self, entries: Iterable[ShownEntry], terminals: Sequence[str]) -> None:
        """Paint changed entries, new entries, and the open cards if terminals changed."""
        for entry in entries:
            if (widget := self._shown.get(self._model.place(entry))) is not None:
                widget.draw()
        last = max(self._shown, default=self._first - 1)
        self._show_places(range(last + 1, len(self._model.entries)))
        if terminals:
            for widget in self._shown.values():
                if isinstance(widget, ToolCard | CommandCard) and widget.is_open:
                    widget.draw_terminals()
        if self._is_at_end:
            self._drop_earlier()

    @property
    def _is_at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def _show_places(self, places: range) -> None:
        made = [(place, self._widget_of(self._model.entries[place])) for place in places]
        self._shown.update(made)
        if made:
            self.mount_all([widget for _, widget in made])
        self._draw_earlier()

    def _widget_of(self, entry: ShownEntry) -> EntryWidget:
        widget: EntryWidget
        match entry:
            case Message(speaker="user"):
                widget = UserMessage(entry, self._model.cwd)
            case Message(speaker="thought"):
                widget = ThoughtLine(entry, self._model.span(entry))
            case Message():
                widget = AgentMessage(entry, self._model.cwd)
            case ToolCallEntry():
                widget = ToolCard(entry, self._model, self.layout_kind)
            case OwnCommand():
                widget = CommandCard(entry, self._model)
            case _:
                widget = NoteLine(entry, self._model.span(entry))
        widget.add_class("entry")
        before = self._model.entries[place - 1] if (place := self._model.place(entry)) else None
        is_line = not isinstance(before, Message | TurnEnd | s.Notice | None)
        widget.set_class(is_line and isinstance(entry, Message), "apart")  # no blank line between tools
        return widget

    def _drop_earlier(self) -> None:
        """Remove the widgets of entries far above the end."""
        if len(self._shown) > MOST + MORE:
            gone = sorted(self._shown)[: len(self._shown) - MOST]
            widgets = [self._shown.pop(place) for place in gone]
            self._first = min(self._shown)
            self.remove_children(widgets)
            self._draw_earlier()

    def _draw_earlier(self) -> None:
        self.set_class(self._first > 0, "cut")
        self._earlier.update(Content(f"↑ {self._first} earlier entries (Home)"))

    def action_to_beginning(self) -> None:
        """Show earlier entries, and scroll to the first one."""
        if self._first:
            start = max(self._first - MORE, 0)
            made = {place: self._widget_of(self._model.entries[place]) for place in range(start, self._first)}
            self._shown = {**made, **self._shown}
            self._first = start
            self.mount_all(list(made.values()), after=self._earlier)
            self._draw_earlier()
        self.scroll_home(animate=False)

    def action_to_end(self) -> None:
        """Scroll to the end, and follow it."""
        self.anchor()

    def set_layout(self, kind: Layout) -> None:
        """Show all changes in another layout."""
        self.layout_kind = kind
        for card in self.query(ToolCard):
            card.set_layout(kind)

    def foldable(self) -> "list[Folded | AttachmentLine]":
        """The entries that can be opened, in order."""
        return [each for each in self.query("Folded, AttachmentLine") if isinstance(each, Folded | AttachmentLine)]
