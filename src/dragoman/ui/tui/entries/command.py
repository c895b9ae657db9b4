"""A card for a user's command: shows the output, and passes keys to the command while it runs."""

from textual.content import Content
from textual.events import Key
from textual.message import Message

from ....foundation.columns import width
from ...model.conversation import ConversationModel
from ...model.intents import TypeInto
from ...model.parts import OwnCommand
from ...model.terminals import TerminalView
from ..words import COLOURS, SIGNS, duration, line
from .cells import TerminalCells
from .folding import Folded

# What a terminal sends for keys that are not letters.
SENT = {
    "enter": "\r",
    "tab": "\t",
    "backspace": "\x7f",
    "escape": "\x1b",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "delete": "\x1b[3~",
}
MAX_COMMAND = 80  # columns


class CommandCard(Folded):
    """A card that is open until the user folds it; a running command receives the keys while it has the focus."""

    class Typed(Message):
        """The user typed a key for the command."""

        def __init__(self, intent: TypeInto) -> None:
            super().__init__()
            self.intent = intent

    def __init__(self, entry: OwnCommand, model: ConversationModel) -> None:
        super().__init__()
        self._entry = entry
        self._span = model.span(entry)
        self._cells: TerminalCells | None = None
        self.view: TerminalView = model.terminals.views[entry.terminal_id]

    def on_mount(self) -> None:
        self._cells = TerminalCells(self.view)
        self.body.mount(self._cells)
        self.set_class(True, "open")
        self.draw()

    def draw(self) -> None:
        status = "failed" if self.view.is_failed else "completed" if self.view.is_over else "in_progress"
        took = duration(self._span.seconds)
        command = line(self._entry.command, MAX_COMMAND, "bold")
        parts = [Content.styled(f"{SIGNS[status]} ", COLOURS[status]), Content.styled("!", "$moving"), command]
        if took and self.view.is_over:
            parts.append(Content.styled(f"  {took}", "$quiet"))
        told = "F5 gives the output to the agent" if self.view.is_over else "^↑ to type into it"
        parts.append(Content.styled(f"  {told}", "$quiet"))
        self.head.update(Content.assemble(*parts))
        self.draw_terminals()

    def draw_terminals(self) -> None:
        """Draw the current output."""
        if self._cells is not None and self.is_open:
            self._cells.is_whole = self._by_hand
            self._cells.draw()

    def on_key(self, event: Key) -> None:
        if self.view.is_over or not self.is_open:
            return
        sent = SENT.get(event.key)
        if sent is None and event.key.startswith("ctrl+") and len(event.key) == 6 and event.key[5].isalpha():
            sent = chr(ord(event.key[5].upper()) - 64)
        if sent is None and event.is_printable and event.character and width(event.character):
            sent = event.character
        if sent is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Typed(TypeInto(terminal_id=self._entry.terminal_id, text=sent)))
