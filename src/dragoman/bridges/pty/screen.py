"""A terminal's screen as text: the program's drawing as lines.

A message cannot be changed once it is sent, so a line is sent when it has left the screen, or when the program
pauses; a line that changes after that is sent again.  Pure: no clock, no descriptor.
"""

from collections.abc import Iterator

from ...foundation.terminal.canvas import KEPT, ScreenRow
from ...foundation.terminal.emulator import TAB, TerminalEmulator


class TerminalScreen(TerminalEmulator):
    """The screen of a program at a terminal, which returns its new text."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__(columns, rows)
        self._last: ScreenRow | None = None  # the last row that was taken
        self._echo: tuple[ScreenRow, int, str, int] | None = None  # the typed text, and where it will appear

    # Reading the screen

    @property
    def is_full(self) -> bool:
        """Whether rows will soon be lost unless they are taken."""
        return len(self._scrolled) > KEPT // 2

    def take(self, *, shown: bool = False, whole: bool = False, prompt: str = "") -> str:
        """The text that was not taken yet, of rows that have left the screen.

        With `shown`, also of rows above the cursor; with `whole`, of all rows.  A `prompt` before the cursor is
        left out, and so is everything after or below the cursor.
        """
        if self._echo and (whole or self.turned > self._echo[3]):
            self._leave_out_echo(*self._echo[:3])
            self._echo = None
        above = self._rows if whole and not prompt else self._rows[: self._row + (1 if prompt else 0)]
        rows = (*self._scrolled, *(above if shown or whole else ()))
        kept = self._without(prompt) if prompt else {}
        text = "".join(piece for row in rows for piece in self._taken(row, kept.get(row)))
        self._scrolled.clear()
        return text

    def _without(self, prompt: str) -> dict[ScreenRow, str]:
        """The rows that a prompt occupies, each with its other text."""
        kept, at, left = dict[ScreenRow, str](), self._row, len(prompt)
        before = self._before_cursor
        while True:
            hidden = min(left, len(before))
            kept[self._rows[at]] = before[: len(before) - hidden]
            left -= hidden
            if not left or not at or not self._rows[at - 1].continues:
                return kept
            at -= 1
            before = self._rows[at].text

    def _taken(self, row: ScreenRow, kept: str | None) -> Iterator[str]:
        text, last = row.text if kept is None else kept, self._last
        told, row.told = row.told, row.text
        if not text or row.told == told:
            return
        if row is last and text.startswith(told):
            yield text[len(told) :]
        else:
            if last is not None:
                apart = row.number - last.number
                yield "" if last.continues and apart == 1 else "\n" * max(apart, 1)
            yield text
        self._last = row

    def typed(self, text: str) -> None:
        """Note that a text is typed at the cursor: the present text counts as taken, and so does the echo."""
        for row in self._rows:
            row.told = row.text
        self._scrolled.clear()
        self._last = None
        echo = (" " * self._column + text).expandtabs(TAB)[self._column :]
        self._echo = self._rows[self._row], len(self._before_cursor), echo, self.turned

    def _leave_out_echo(self, first: ScreenRow, start: int, typed: str) -> None:
        for row in (*self._scrolled, *self._rows):
            if row is not first and row.number <= first.number:
                continue
            there = row.text[start:]
            if not (there.startswith(typed) or (row.continues and typed.startswith(there))):
                return
            row.told = row.text[: start + len(typed)]
            typed, start = typed[len(there) :], 0
            if not typed:
                self._last = row if row.told != row.text else None
                return
