"""Rows of cells and a cursor, on which a terminal draws.

Pure: no clock, no descriptor.  A row that has left the screen at its top does not change any more.
"""

from collections import deque
from itertools import groupby

from ..columns import width

MAX_SIZE = 1000  # columns or rows
KEPT = 2000  # rows that have left the screen and were not taken


class ScreenRow:
    """A row of the screen.  A cell is a character with its accents; the second cell of a wide one is empty."""

    __slots__ = ("cells", "continues", "number", "styles", "told")

    def __init__(self, number: int) -> None:
        self.number = number  # rows are numbered in the order they are begun
        self.cells: list[str] = []
        self.styles: list[str] = []  # of each cell, in the words of `styles.restyled`
        self.continues = False  # the line was too long and continues in the next row
        self.told = ""  # the part of it that was taken

    @property
    def text(self) -> str:
        """The row's text."""
        return "".join(self.cells)

    @property
    def runs(self) -> list[tuple[str, str]]:
        """The row's text in pieces of one style each, with that style."""
        pairs = zip(self.styles, self.cells, strict=True)
        return [
            ("".join(cell for _, cell in run), style) for style, run in groupby(pairs, key=lambda pair: pair[0])
        ]

    def put(self, at: int, cells: list[str], style: str, *, taken: int | None = None) -> None:
        """Put cells at a column, in place of as many cells, or of `taken` cells."""
        end = at + (len(cells) if taken is None else taken)
        self.cells[at:end] = cells
        self.styles[at:end] = [style] * len(cells)

    def cut(self, at: int = 0) -> None:
        """Remove the cells from a column on."""
        del self.cells[at:], self.styles[at:]

    def settle(self) -> None:
        """Take less memory, once the row does not change any more."""
        runs = self.runs
        self.cells, self.styles = [text for text, _ in runs], [style for _, style in runs]


class Canvas:
    """Rows of cells, a cursor, and a region that scrolls."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self._height = columns, rows
        self._numbered = 0
        self._rows = self._blank_rows(rows)
        self._row = self._column = 0  # a column at the right edge wraps before the next character
        self._top, self._bottom = 0, rows  # the region that scrolls
        # the main screen, while the alternate one is shown
        self._main: tuple[list[ScreenRow], int, int] | None = None
        self._wraps = True
        self._style = ""  # the style of characters written now
        self._scrolled: deque[ScreenRow] = deque()  # rows that have left the screen and were not taken
        self.lost = 0  # rows dropped because they were not taken in time
        self.turned = 0  # how often the cursor has come to another row

    @property
    def lines(self) -> list[str]:
        """The visible rows, without the blank ones at the end."""
        lines = [row.text.rstrip() for row in self._rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def rows(self) -> list[ScreenRow]:
        """All rows that are kept; those that have left the screen come first."""
        return [*self._scrolled, *self._rows]

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

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; with fewer rows, those at the top leave the screen.  Lines are not wrapped anew."""
        self._row -= self._fit(self._rows, self._row, rows)
        if self._main:
            behind, row, column = self._main
            self._main = behind, row - self._fit(behind, row, rows), min(column, columns)
        self.columns, self._height = columns, rows
        self._column = min(self._column, columns)
        self._top, self._bottom = 0, rows

    def _fit(self, drawn: list[ScreenRow], cursor: int, rows: int) -> int:
        """Change the number of rows; returns how many have left at the top."""
        while len(drawn) > rows and cursor < len(drawn) - 1 and not drawn[-1].cells:
            drawn.pop()
        left = max(len(drawn) - rows, 0)
        for row in drawn[:left]:
            self._leave(row)
        drawn[:] = [*drawn[left:], *self._blank_rows(rows - len(drawn) + left)]
        return min(left, cursor)

    # Writing

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
        """How many columns are left in this row, or in the next row if this one has too few."""
        if self._column + space > self.columns and self.columns >= space:
            if self._wraps:
                self._rows[self._row].continues = True
                self._column = 0
                self._feed_line()
            else:
                self._column = self.columns - space
        return max(self.columns - self._column, 1)

    def _put(self, cells: list[str]) -> None:
        drawn, at, end = self._rows[self._row], self._column, self._column + len(cells)
        row = drawn.cells
        if len(row) < at:
            drawn.put(len(row), [" "] * (at - len(row)), "")
        if at < len(row) and row[at] == "" and at:
            row[at - 1] = " "  # half of a wide character remains
        if end < len(row) and row[end] == "":
            row[end] = " "
        drawn.put(at, cells, self._style)
        self._column = min(end, self.columns)

    def _join(self, accent: str) -> None:
        row = self._rows[self._row].cells
        at = min(self._column, len(row)) - 1
        while at > 0 and row[at] == "":
            at -= 1
        if at >= 0 and len(row[at]) < 16:
            row[at] += accent

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
        """Insert blank rows at a row, so that those below it move down; a negative number removes rows."""
        for _ in range(min(abs(count), self._height)):
            if count > 0:
                del self._rows[self._bottom - 1]
                self._rows.insert(at, self._blank_rows(1)[0])
            else:
                del self._rows[at]
                self._rows.insert(self._bottom - 1, self._blank_rows(1)[0])

    def _shift_cells(self, final: str, count: int, at: int) -> None:
        row = self._rows[self._row]
        room = max(len(row.cells) - at, 0)
        if final == "P":
            row.put(at, [], "", taken=count)
        elif final == "X":
            row.put(at, [" "] * min(count, room), "")
        elif room:
            row.put(at, [" "] * count, "", taken=0)
            row.cut(self.columns)

    def _alternate(self, is_on: bool) -> None:
        if is_on and self._main is None:
            self._main = self._rows, self._row, self._column
            self._rows = self._blank_rows(self._height)
        elif not is_on and self._main is not None:
            self._rows, row, column = self._main
            self._main = None
            self._go(row, column)

    def _leave(self, row: ScreenRow) -> None:
        """Remove the top row from the screen; it does not change any more."""
        row.settle()
        self._scrolled.append(row)
        if len(self._scrolled) > KEPT:
            lost = self._scrolled.popleft()
            self.lost += lost.text != lost.told

    def _blank_rows(self, count: int) -> list[ScreenRow]:
        self._numbered += max(count, 0)
        return [ScreenRow(number) for number in range(self._numbered - count, self._numbered)]

    # Erasing

    def _clear_all(self) -> None:
        """Clear the screen; rows that were not taken yet leave it as if they had been scrolled away."""
        for row in self._rows if self._main is None else ():
            if row.text != row.told:
                self._leave(row)
        self._rows = self._blank_rows(self._height)
        self.turned += 1

    def _erase_screen(self, how: int) -> None:
        if how == 2:
            self._clear_all()
        elif how in (0, 1):
            self._erase_line(how)
            for row in self._rows[self._row + 1 :] if how == 0 else self._rows[: self._row]:
                row.cut()
                row.continues = False

    def _erase_line(self, how: int) -> None:
        row, at = self._rows[self._row], min(self._column, self.columns - 1)
        if how == 1:
            row.put(0, [" "] * min(at + 1, len(row.cells)), "")
        else:
            row.cut(0 if how == 2 else at)
            row.continues = False
