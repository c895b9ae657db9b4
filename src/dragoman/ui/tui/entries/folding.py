"""Entries that fold to one line and open on a key or a click."""

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.widgets import Static


class Folded(Vertical, can_focus=True):
    """A line, and below it what it stands for while it is open."""

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
        self._by_hand = False  # the person opened or folded it, and it stays so

    def compose(self) -> "list[Static | Vertical]":
        return [self.head, self.body]

    @property
    def is_open(self) -> bool:
        """Whether what it stands for is shown."""
        return self.has_class("open")

    def fold(self, is_open: bool) -> None:
        """Open or fold it, unless the person has done either."""
        if not self._by_hand and is_open != self.is_open:
            self._set_open(is_open)

    def action_open_or_fold(self) -> None:
        """Open it, or fold it."""
        self._by_hand = True
        self._set_open(not self.is_open)

    def _set_open(self, is_open: bool) -> None:
        self.set_class(is_open, "open")
        self.draw()

    def draw(self) -> None:
        """Draw its line, and its body while it is open."""

    def on_click(self, event: Click) -> None:
        if event.widget is self.head:
            event.stop()
            self.action_open_or_fold()
