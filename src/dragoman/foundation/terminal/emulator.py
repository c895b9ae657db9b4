"""A terminal's screen that obeys the output of a program.  Pure: no clock, no descriptor."""

from .canvas import Canvas
from .sequences import CONTROL, ESCAPE, TEXT, Sequences, numbers
from .styles import restyled

TAB = 8


class TerminalEmulator(Canvas):
    """The screen of a program at a terminal.

    `is_piped`: the program writes into a pipe, where a line feed alone ends a line.
    """

    def __init__(self, columns: int = 80, rows: int = 24, *, is_piped: bool = False) -> None:
        super().__init__(columns, rows)
        self._is_piped = is_piped
        self._sequences = Sequences()
        self._saved = (0, 0)
        self.replies = ""  # answers to the program's questions, still to be sent
        self.pastes = False  # the program wants pasted text marked as pasted

    def feed(self, text: str) -> None:
        """Draw output of the program."""
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
                if self._is_piped:
                    self._column = 0
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
                self._top, self._bottom, self._wraps, self._style = 0, self._height, True, ""

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
            case "m":
                self._style = restyled(self._style, parameters)
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
