"""A terminal's screen: what a program draws is interpreted, and comes out as lines of text.

A message cannot be drawn over, so a line is told when it has left the screen, or when the program pauses; a line
that changes after that is told again.  Pure: no clock, no descriptor.
"""

from collections import deque
from collections.abc import Iterator

from ...foundation.columns import width
from .sequences import CONTROL, ESCAPE, TEXT, Sequences, numbers

MAX_SIZE = 1000  # columns or rows
KEPT = 2000  # rows that have left the screen and were not taken
TAB = 8


class ScreenRow:
    """A row of the screen: a cell is a character with its accents; the second half of a wide one is empty."""

    __slots__ = ("cells", "continues", "number", "told")

    def __init__(self, number: int) -> None:
        self.number = number  # rows count up in the order they are begun
        self.cells: list[str] = []
        self.continues = False  # the line was too long, and goes on in the next row
        self.told = ""  # what of it was taken

    @property
    def text(self) -> str:
        """The row's text."""
        return "".join(self.cells)


class TerminalScreen:
    """Rows and a cursor, as a program at a terminal sees them."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self._height = columns, rows
        self._numbered = 0
        self._rows = self._blank_rows(rows)
        self._row = self._column = 0  # a column at the right edge wraps before the next character
        self._top, self._bottom = 0, rows  # the region that scrolls
        self._saved = (0, 0)
        self._main: tuple[list[ScreenRow], int, int] | None = None  # what is behind the alternate screen
        self._wraps = True
        self._sequences = Sequences()
        self._scrolled: deque[ScreenRow] = deque()  # rows that have left the screen and were not taken
        self._last: ScreenRow | None = None  # the row that was taken last
        self._echo: tuple[ScreenRow, int, str, int] | None = None  # what was typed, and where it will appear
        self.lost = 0  # rows that nobody took in time
        self.turned = 0  # how often the cursor has come to another row
        self.replies = ""  # what the program is owed, for it asked
        self.pastes = False  # the program tells typed text from pasted text

    # What was drawn

    @property
    def lines(self) -> list[str]:
        """The rows as they are seen, without the blank ones below."""
        lines = [row.text.rstrip() for row in self._rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def cursor(self) -> tuple[int, int]:
        """The cursor's row and column, from 0."""
        return self._row, self._column

    @property
    def line(self) -> str:
        """The text between the beginning of the line and the cursor."""
        at = self._row
        while at and self._rows[at - 1].continues:
            at -= 1
        return "".join(row.text for row in self._rows[at : self._row]) + self._before_cursor

    @property
    def _before_cursor(self) -> str:
        cells = self._rows[self._row].cells[: self._column]
        return "".join(cells) + " " * (self._column - len(cells))

    @property
    def is_full(self) -> bool:
        """Whether rows will be lost before long if nobody takes them."""
        return len(self._scrolled) > KEPT // 2

    def take(self, *, shown: bool = False, whole: bool = False, prompt: str = "") -> str:
        """The text that was not taken yet: of rows that have left the screen.

        `shown`: of those above the cursor, too; `whole`: of all.  A `prompt` before the cursor is left out, and with
        it whatever stands behind or below the cursor.
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
        self._echo = self._rows[self._row], len(self._before_cursor), text, self.turned

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

    def resize(self, columns: int, rows: int) -> None:
        """Have another size; rows at the top leave the screen where there are fewer, lines stay as they were broken."""
        self._row -= self._fit(self._rows, self._row, rows)
        if self._main:
            behind, row, column = self._main
            self._main = behind, row - self._fit(behind, row, rows), min(column, columns)
        self.columns, self._height = columns, rows
        self._column = min(self._column, columns)
        self._top, self._bottom = 0, rows

    def _fit(self, drawn: list[ScreenRow], cursor: int, rows: int) -> int:
        """Make so many rows of those there are; gives how many have left at the top."""
        while len(drawn) > rows and cursor < len(drawn) - 1 and not drawn[-1].cells:
            drawn.pop()
        left = max(len(drawn) - rows, 0)
        for row in drawn[:left]:
            self._leave(row)
        drawn[:] = [*drawn[left:], *self._blank_rows(rows - len(drawn) + left)]
        return min(left, cursor)

    def _write(self, text: str) -> None:
        if text.isascii():
            while text:
                room = self._room(1)
                self._put([*text[:room]])
                text = text[room:]
            return
        for char in text:
            space = width(char)
            if space == 0:
                self._join(char)
            else:
                self._room(space)
                self._put([char] if space == 1 or self.columns < 2 else [char, ""])

    def _room(self, space: int) -> int:
        """How many columns are left in this row, or in the next one where there are too few."""
        if self._column + space > self.columns and self.columns >= space:
            if self._wraps:
                self._rows[self._row].continues = True
                self._column = 0
                self._feed_line()
            else:
                self._column = self.columns - space
        return max(self.columns - self._column, 1)

    def _put(self, cells: list[str]) -> None:
        row, at, end = self._rows[self._row].cells, self._column, self._column + len(cells)
        if len(row) < at:
            row += [" "] * (at - len(row))
        if at < len(row) and row[at] == "" and at:
            row[at - 1] = " "  # half of a wide character is left
        if end < len(row) and row[end] == "":
            row[end] = " "
        row[at:end] = cells
        self._column = min(end, self.columns)

    def _join(self, accent: str) -> None:
        row = self._rows[self._row].cells
        at = min(self._column, len(row)) - 1
        while at > 0 and row[at] == "":
            at -= 1
        if at >= 0 and len(row[at]) < 16:
            row[at] += accent

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

    def _alternate(self, is_on: bool) -> None:
        if is_on and self._main is None:
            self._main = self._rows, self._row, self._column
            self._rows = self._blank_rows(self._height)
        elif not is_on and self._main is not None:
            self._rows, row, column = self._main
            self._main = None
            self._go(row, column)
        self._last = None if is_on else self._last

    # Moving

    def _go(self, row: int, column: int) -> None:
        row = min(max(row, 0), self._height - 1)
        self.turned += row != self._row
        self._row, self._column = row, min(max(column, 0), self.columns - 1)

    def _feed_line(self) -> None:
        self.turned += 1
        if self._row == self._bottom - 1:
            self._scroll_up(1)
        elif self._row < self._height - 1:
            self._row += 1

    def _scroll_up(self, count: int) -> None:
        for _ in range(min(count, self._height)):
            row = self._rows.pop(self._top)
            if self._top == 0 and self._main is None:
                self._leave(row)
            self._rows.insert(self._bottom - 1, self._blank_rows(1)[0])

    def _scroll_down(self, count: int) -> None:
        self._shift_rows(self._top, count)

    def _shift_rows(self, at: int, count: int) -> None:
        """Put blank rows at a place, so that those below move down; or take some out, if there are fewer than none."""
        for _ in range(min(abs(count), self._height)):
            if count > 0:
                del self._rows[self._bottom - 1]
                self._rows.insert(at, self._blank_rows(1)[0])
            else:
                del self._rows[at]
                self._rows.insert(self._bottom - 1, self._blank_rows(1)[0])

    def _leave(self, row: ScreenRow) -> None:
        """A row leaves the screen at its top: it will not change any more."""
        row.cells = [row.text]
        self._scrolled.append(row)
        if len(self._scrolled) > KEPT:
            lost = self._scrolled.popleft()
            self.lost += lost.text != lost.told

    def _blank_rows(self, count: int) -> list[ScreenRow]:
        self._numbered += max(count, 0)
        return [ScreenRow(number) for number in range(self._numbered - count, self._numbered)]

    # Erasing

    def _clear_all(self) -> None:
        """Clear the screen; rows that were not taken yet leave it as if they had scrolled away."""
        for row in self._rows if self._main is None else ():
            if row.text != row.told:
                self._leave(row)
        self._rows = self._blank_rows(self._height)
        self.turned += 1

    def _erase_screen(self, how: int) -> None:
        if how == 0:
            self._erase_line(0)
            for row in self._rows[self._row + 1 :]:
                row.cells, row.continues = [], False
        elif how == 1:
            self._erase_line(1)
            for row in self._rows[: self._row]:
                row.cells, row.continues = [], False
        elif how == 2:
            self._clear_all()

    def _erase_line(self, how: int) -> None:
        row, at = self._rows[self._row], min(self._column, self.columns - 1)
        if how == 1:
            row.cells[: at + 1] = [" "] * min(at + 1, len(row.cells))
        else:
            del row.cells[0 if how == 2 else at :]
            row.continues = False

    def _shift_cells(self, final: str, count: int, at: int) -> None:
        cells = self._rows[self._row].cells
        if final == "P":
            del cells[at : at + count]
        elif final == "X":
            end = min(at + count, len(cells))
            cells[at:end] = [" "] * max(end - at, 0)
        elif at < len(cells):
            cells[at:at] = [" "] * count
            del cells[self.columns :]
