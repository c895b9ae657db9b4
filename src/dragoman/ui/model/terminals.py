"""The terminals of a conversation: the cells on the screen of each, and how it ended."""

from ... import schema as s
from ...foundation.terminal.canvas import ScreenRow
from ...foundation.terminal.emulator import TerminalEmulator
from .agent_terminals import Printed

MOST = 64  # terminals that are kept; the oldest ended ones are dropped first
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
        """Its rows, first those scrolled away, without the blank ones at the end."""
        rows = self.screen.rows
        while rows and not rows[-1].text.strip():
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        """Its text, without colours; a wrapped line is one line."""
        parts = list[str]()
        for row in self.rows:
            parts.append(row.text if row.continues else f"{row.text.rstrip()}\n")
        return "".join(parts)

    @property
    def is_failed(self) -> bool:
        """Whether its command has failed."""
        return self.status is not None and bool(self.status.exit_code or self.status.signal)


class TerminalTable:
    """The terminals of a conversation, by their ids, bounded."""

    def __init__(self) -> None:
        self.views: dict[str, TerminalView] = {}

    def begin(self, view: TerminalView) -> bool:
        """Add a terminal; an existing one stays."""
        if view.id in self.views:
            return False
        self.views[view.id] = view
        if len(self.views) > MOST:
            over = (id for id, view in self.views.items() if view.is_over)
            del self.views[next(over, next(iter(self.views)))]
        return True

    def print(self, id: str, text: str) -> bool:
        """Draw a command's output; ignored if there is no terminal with this id."""
        if (view := self.views.get(id)) is None or not text:
            return False
        view.screen.feed(text)
        return True

    def size(self, id: str, columns: int, rows: int) -> bool:
        """Resize a terminal."""
        if (view := self.views.get(id)) is None:
            return False
        view.screen.resize(columns, rows)
        return True

    def end(self, id: str, status: s.TerminalExitStatus | None) -> bool:
        """Note the end of a command."""
        if (view := self.views.get(id)) is None:
            return False
        view.is_over, view.status = True, status
        return True

    def told(self, printed: Printed, command: str) -> bool:
        """Apply an agent's report about its own terminal, from a tool call update."""
        is_new = self.begin(TerminalView(printed.id, command))
        has_printed = self.print(printed.id, printed.text)
        has_ended = printed.ended is not None and self.end(printed.id, printed.ended)
        return is_new or has_printed or has_ended
