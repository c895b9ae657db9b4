"""A terminal's screen: what a program draws is interpreted, and comes out as lines of text.

A message cannot be drawn over, so a line is told when it has left the screen, or when the program pauses; a line
that changes after that is told again.  Pure: no clock, no descriptor.
"""

from collections.abc import Iterator

from .canvas import KEPT, Canvas, ScreenRow
from .sequences import CONTROL, ESCAPE, TEXT, Sequences, numbers

TAB = 8


class TerminalScreen(Canvas):
    """The screen of a program at a terminal: obeys what the program sends, and gives what is new as text."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__(columns, rows)
        self._sequences = Sequences()
        self._saved = (0, 0)
        self._last: ScreenRow | None = None  # the row that was taken last
        self._echo: tuple[ScreenRow, int, str, int] | None = None  # what was typed, and where it will appear
        self.replies = ""  # what the program is owed, for it asked
        self.pastes = False  # the program tells typed text from pasted text

    # What was drawn

    @property
    def is_full(self) -> bool:
        """Whether rows will be lost before long if nobody takes them."""
        return len(self._scrolled) > KEPT // 2

    def take(self, *, shown: bool = False, whole: bool = False, prompt: str = "") -> str:
        """The text that was not taken yet: of rows that have left the screen.

        `shown`: of those above the cursor, too; `whole`: of all.  A `prompt` before the cursor is left out, and
        with it whatever stands behind or below the cursor.
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
        """The rows that a prompt takes up, each with what is in it besides."""
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
        """Note that something is typed at the cursor: all that is there counts as taken, and so does its echo."""
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

    # Drawing

    def feed(self, text: str) -> None:
        """Draw what a program has sent."""
        for kind, value in self._sequences.feed(text):
            if kind is TEXT:
                self._write(value)
            elif kind is CONTROL:
                self._control(value)
            elif kind is ESCAPE:
                self._escape(value)
            else:
                self._obey(kind, value)

    def _control(self, char: str) -> None:
        match char:
            case "\n" | "\v" | "\f":
                self._feed_line()
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(min(self._column, self.columns - 1) - 1, 0)
            case "\t":
                self._column = min((self._column // TAB + 1) * TAB, self.columns - 1)

    def _escape(self, char: str) -> None:
        match char:
            case "7":
                self._saved = self._row, self._column
            case "8":
                self._go(*self._saved)
            case "D":
                self._feed_line()
            case "E":
                self._column = 0
                self._feed_line()
            case "M":
                if self._row == self._top:
                    self._scroll_down(1)
                else:
                    self._go(self._row - 1, self._column)
            case "c":
                self._clear_all()
                self._go(0, 0)
                self._top, self._bottom, self._wraps = 0, self._height, True

    def _obey(self, final: str, parameters: str) -> None:
        (count,) = numbers(parameters, 1)
        row, column = self._row, min(self._column, self.columns - 1)
        match final:
            case "A" | "F":
                self._go(row - count, 0 if final == "F" else column)
            case "B" | "e" | "E":
                self._go(row + count, 0 if final == "E" else column)
            case "C" | "a":
                self._go(row, column + count)
            case "D":
                self._go(row, column - count)
            case "G" | "`":
                self._go(row, count - 1)
            case "d":
                self._go(count - 1, column)
            case "H" | "f":
                line, place = numbers(parameters, 1, 1)
                self._go(line - 1, place - 1)
            case "J":
                self._erase_screen(numbers(parameters, 0)[0])
            case "K":
                self._erase_line(numbers(parameters, 0)[0])
            case "L" | "M" if self._top <= row < self._bottom:
                self._shift_rows(row, count if final == "L" else -count)
            case "S":
                self._scroll_up(count)
            case "T" if ";" not in parameters:
                self._scroll_down(count)
            case "@" | "P" | "X":
                self._shift_cells(final, min(count, self.columns), column)
            case "b":
                cells = self._rows[row].cells
                if 0 < self._column <= len(cells):
                    self._write(cells[self._column - 1] * min(count, self.columns))
            case "r":
                self._set_region(parameters)
            case "s" | "u" if not parameters:
                self._escape("7" if final == "s" else "8")
            case "h" | "l":
                self._set_mode(parameters, final == "h")
            case "n" if parameters == "6":
                self._reply(f"\x1b[{row + 1};{column + 1}R")
            case "n" if parameters == "5":
                self._reply("\x1b[0n")
            case "c" if parameters in ("", "0"):
                self._reply("\x1b[?6c")

    def _reply(self, text: str) -> None:
        self.replies = (self.replies + text)[-256:]

    def _set_region(self, parameters: str) -> None:
        top, bottom = numbers(parameters, 1, self._height)
        if top < bottom <= self._height:
            self._top, self._bottom = top - 1, bottom
            self._go(0, 0)

    def _set_mode(self, parameters: str, is_on: bool) -> None:
        for mode in parameters.removeprefix("?").split(";") if parameters.startswith("?") else ():
            match mode:
                case "7":
                    self._wraps = is_on
                case "2004":
                    self.pastes = is_on
                case "47" | "1047" | "1049":
                    self._alternate(is_on)
