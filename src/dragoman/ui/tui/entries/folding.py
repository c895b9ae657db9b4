"""Entries that fold to one line; a key or a click opens them."""

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.widgets import Static


class Folded(Vertical, can_focus=True):
    """A line, and below it a body that is shown while the entry is open."""

    DEFAULT_CSS = """
    Folded { height: auto; width: 1fr; }
    Folded > .head { height: auto; width: 1fr; }
    Folded > .body { height: auto; width: 1fr; padding-left: 4; display: none; }
    Folded.open > .body { display: block; }
    Folded:focus > .head { background: $raised; text-style: reverse; }
    """
    BINDINGS = [Binding("enter,space", "open_or_fold", "open or fold", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self.head = Static(Content(""), classes="head")
        self.body = Vertical(classes="body")
        self._by_hand = False  # the user opened or folded the entry, so it stays that way

    def compose(self) -> "list[Static | Vertical]":
        return [self.head, self.body]

    @property
    def is_open(self) -> bool:
        """Whether the body is shown."""
        return self.has_class("open")

    def fold(self, is_open: bool) -> None:
        """Open or fold the entry, unless the user has done either."""
        if not self._by_hand and is_open != self.is_open:
            self._set_open(is_open)

    def action_open_or_fold(self) -> None:
        """Open the entry, or fold it if it is open."""
        self._by_hand = True
        self._set_open(not self.is_open)

    def _set_open(self, is_open: bool) -> None:
        self.set_class(is_open, "open")
        self.draw()

    def draw(self) -> None:
        """Draw the line, and the body while the entry is open."""

    def on_click(self, event: Click) -> None:
        if event.widget is self.head:
            event.stop()
            self.action_open_or_fold()
