"""What somebody sees on a terminal after all that was written to it: lines that wrap, scroll and are erased."""

import re
import unicodedata

_PARTS = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b])")


class Emulator:
    """A terminal with all that has scrolled away kept; it knows the sequences this project writes."""

    def __init__(self, columns: int, height: int = 50) -> None:
        self._columns, self._height = columns, height
        self._rows: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        for part in _PARTS.finditer(text):
            parameters, command, control, char = part.groups()
            if command:
                self._obey(command, parameters)
            elif control:
                self._control(control)
            else:
                self._put(char)

    @property
    def lines(self) -> list[str]:
        """All lines, as they are seen by now."""
        return ["".join(char for char, _ in row).rstrip() for row in self._rows]

    @property
    def styled(self) -> list[list[tuple[str, str]]]:
        """All characters, each with the parameters of its style."""
        return self._rows

    def _obey(self, command: str, parameters: str) -> None:
        count = int(parameters) if parameters.isdecimal() else 1
        match command:
            case "m":
                self._style = "" if parameters in ("", "0") else parameters
            case "A":
                top = max(0, len(self._rows) - self._height)  # what has scrolled away cannot be reached
                self._row = max(top, self._row - count)
            case "D":
                self._column = max(0, self._column - count)
            case "J":
                del self._rows[self._row + 1 :]
                del self._rows[self._row][self._column :]
            case "K":
                del self._rows[self._row][0 if parameters == "2" else self._column :]
            case "h" | "l":
                pass
            case _:
                raise AssertionError(f"the sequence {parameters}{command} is not known")

    def _control(self, char: str) -> None:
        if char == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append([])
        if char == "\r":
            self._column = 0

    def _put(self, char: str) -> None:
        space = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if unicodedata.combining(char):
            space = 0
        if self._column + space > self._columns:
            self._control("\r")
            self._control("\n")
        row = self._rows[self._row]
        row += [(" ", "")] * (self._column - len(row))
        row[self._column : self._column + space] = [(char, self._style), ("", "")][: max(space, 1)]
        self._column += space
