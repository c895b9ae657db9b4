"""Draws the rows of a terminal in their colours."""

from textual.content import Content
from textual.widgets import Static

from ....foundation.terminal.canvas import ScreenRow
from ...legible import legible
from ...model.terminals import TerminalView
from ..words import line

TAIL = 8  # rows shown, unless the terminal is shown whole
_LOOKS = {"dim": "dim", "bold": "bold", "italic": "italic", "underline": "underline", "reverse": "reverse"}


def drawn(row: ScreenRow) -> Content:
    """A row in its colours."""
    return Content.assemble(*((legible(text), _style(style)) for text, style in row.runs))


def _style(words: str) -> str:
    """Translate a style of the emulator into one of the toolkit."""
    parts, back = list[str](), ""
    for word in words.split():
        if word in _LOOKS or word == "strike":
            parts.append(word)
        elif word.startswith("on_"):
            back = f"on {_colour(word.removeprefix('on_'))}"
        else:
            parts.append(_colour(word))
    return " ".join([*parts, back]).strip()


def _colour(name: str) -> str:
    return name if name.startswith("#") else f"ansi_{name}"


class TerminalCells(Static):
    """Shows the last rows of a terminal, or all stored rows."""

    DEFAULT_CSS = "TerminalCells { width: 1fr; height: auto; }"

    def __init__(self, view: TerminalView, *, is_whole: bool = False) -> None:
        super().__init__()
        self.view, self.is_whole = view, is_whole

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw the current rows."""
        self.update(cells_of(self.view, is_whole=self.is_whole))


def cells_of(view: TerminalView, *, is_whole: bool) -> Content:
    """The rows of a terminal, with the number of hidden rows and how its command failed."""
    rows = view.rows
    hidden = 0 if is_whole else max(len(rows) - TAIL, 0)
    parts = [Content.styled(f"… {hidden + view.screen.lost} earlier lines", "$quiet")] if hidden else []
    parts += [drawn(row) for row in rows[hidden:]]
    if view.is_failed and view.status is not None:
        ended = f"ended by {view.status.signal}" if view.status.signal else f"exit {view.status.exit_code}"
        parts.append(line(ended, style="$bad"))
    if not parts:
        parts = [Content.styled("no output" if view.is_over else "no output yet", "$quiet")]
    return Content("\n").join(parts)
