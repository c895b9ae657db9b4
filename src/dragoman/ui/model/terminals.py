"""Terminals of a conversation: what is on the screen of each, in cells, and how it ended."""

from ... import schema as s
from ...foundation.terminal.canvas import ScreenRow
from ...foundation.terminal.emulator import TerminalEmulator
from .agent_terminals import Printed

MOST = 64  # terminals that are kept; of those that ended the oldest go first
MAX_COMMAND = 16_000  # characters


class TerminalView:
    """A terminal as a person sees it."""

    def __init__(self, id: str, command: str, *, is_mine: bool = False, columns: int = 80, rows: int = 24) -> None:
        self.id, self.command, self.is_mine = id, command[:MAX_COMMAND], is_mine
        self.is_over = False
        self.status: s.TerminalExitStatus | None = None
        self.screen = TerminalEmulator(columns, rows, is_piped=not is_mine)

    @property
    def rows(self) -> list[ScreenRow]:
        """Its rows, those that have scrolled away first, without the blank ones at the end."""
        rows = self.screen.rows
        while rows and not rows[-1].text.strip():
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        """What is on it, without colours; a line that was too long for a row is one line."""
        parts = list[str]()
        for row in self.rows:
            parts.append(row.text if row.continues else f"{row.text.rstrip()}\n")
        return "".join(parts)

    @property
    def is_failed(self) -> bool:
        """Whether its command has ended and did not succeed."""
        return self.status is not None and bool(self.status.exit_code or self.status.signal)


class TerminalTable:
    """The terminals of a conversation, by their ids, bounded."""

    def __init__(self) -> None:
        self.views: dict[str, TerminalView] = {}

    def begin(self, view: TerminalView) -> bool:
        """Have a further terminal; one that is there stays."""
        if view.id in self.views:
            return False
        self.views[view.id] = view
        if len(self.views) > MOST:
            over = (id for id, view in self.views.items() if view.is_over)
            del self.views[next(over, next(iter(self.views)))]
        return True

    def print(self, id: str, text: str) -> bool:
        """Draw what a command has printed; without a terminal of that id nothing happens."""
        if (view := self.views.get(id)) is None or not text:
            return False
        view.screen.feed(text)
        return True

    def size(self, id: str, columns: int, rows: int) -> bool:
        """Give a terminal another size."""
        if (view := self.views.get(id)) is None:
            return False
        view.screen.resize(columns, rows)
        return True

    def end(self, id: str, status: s.TerminalExitStatus | None) -> bool:
        """A command has ended."""
        if (view := self.views.get(id)) is None:
            return False
        view.is_over, view.status = True, status
        return True

    def told(self, printed: Printed, command: str) -> bool:
        """Take in what an agent tells of a terminal of its own, in an update of a tool call."""
        is_new = self.begin(TerminalView(printed.id, command))
        has_printed = self.print(printed.id, printed.text)
        has_ended = printed.ended is not None and self.end(printed.id, printed.ended)
        return is_new or has_printed or has_ended
