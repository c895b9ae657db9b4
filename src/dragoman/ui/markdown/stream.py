"""Markdown in chunks: shown word by word, or line by line where the whole line has to be known."""

import re

from ...foundation.columns import width
from ..output import marked, unmarked
from ..style import Style
from .inline import next_spans, spans_of
from .tables import DELIMITERS, drawn, is_row
from .wrapping import Wrapper

LONGEST_HELD = 1000  # characters of a line that are awaited to determine its kind
MOST_ROWS = 500  # of a table
RULE = 40  # columns

_FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([^`]*?) *")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})")
_HEADING = re.compile(r" {0,3}(#{1,6}) +")
_CLOSING_MARKS = re.compile(r" +#+ *$")
_ITEM = re.compile(r"( *)(?:([-*+])|(\d{1,9}[.)])) +(?:\[([ xX])\] +)?")
_QUOTE = re.compile(r" {0,3}> ?")
# Beginnings that may still become one of these, or a longer one.
_UNDECIDED = re.compile(r" *(?:#{0,6} *|[-*+] *(?:\[[ xX]?\]? *)?|\d{1,9}(?:[.)] *(?:\[[ xX]?\]? *)?)?|[-*_ ]*)")
_HELD = re.compile(r" *(?:`{1,2}$|~{1,2}$|`{3}|~{3}|\||#{1,6} )")  # to be known to its end
BOXES = {" ": "☐", "x": "☑", "X": "☑"}
HEADINGS: tuple[tuple[str, ...], ...] = (("bold", "underline"), ("bold",), ("bold", "italic"))


class MarkdownStream:
    """Shows Markdown on a terminal with this many columns; `base` are styles of all text."""

    def __init__(self, style: Style, columns: int, base: tuple[str, ...] = ()) -> None:
        self._wrapper = Wrapper(style, base)
        self.columns = columns
        self._text = ""  # text that has arrived and is undecided
        self._before = ""  # the character before it in its line
        self._is_inside = False  # whether the line has begun to be shown
        self._quotes = 0  # the depth of quotes of the line
        self._fence = ""  # the fence that closes the open code block
        self._fence_indent = 0
        self._table: list[str] = []
        self._blank_lines = 0  # shown when text follows
        self._has_shown = False

    def show(self, chunk: str) -> str:
        """Add a chunk; returns the text that can now be shown."""
        self._text += chunk
        return self._advance(is_end=False)

    def end(self) -> str:
        """The remaining text, with its last line ended."""
        shown = self._advance(is_end=True)
        self._end_table()
        self._quotes = 0
        return shown + self._wrapper.take()

    @property
    def tail(self) -> str:
        """The text that is not shown yet, unformatted, as far as it fits in its line."""
        return self._wrapper.tail(self._text.partition("\n")[0])

    def _advance(self, *, is_end: bool) -> str:
        self._wrapper.columns = max(self.columns, 1)
        while self._text or (is_end and self._is_inside):
            before = len(self._text), self._is_inside
            self._go_on(is_end) if self._is_inside else self._begin_line(is_end)
            if before == (len(self._text), self._is_inside):
                break
        return self._wrapper.take()

    def _line(self, is_end: bool) -> tuple[str, bool]:
        """The received part of the line, and whether the line is complete."""
        line, found, _ = self._text.partition("\n")
        return line, bool(found) or is_end

    # Inside a line

    def _go_on(self, is_end: bool) -> None:
        line, is_complete = self._line(is_end)
        while line:
            if self._fence:
                used = len(line) if is_complete and len(line) <= LONGEST_HELD else LONGEST_HELD
                if used > len(line):
                    break  # code is shown line by line, whatever its chunks
                self._wrapper.put_code(line[:used])
            else:
                spans, used = next_spans(line, self._before, is_complete=is_complete)
                self._wrapper.add(spans)
            if not used:
                break
            self._before = line[used - 1]
            line, self._text = line[used:], self._text[used:]
        if not line and is_complete:
            self._text = self._text[1:]
            self._wrapper.end()
            self._is_inside, self._before, self._quotes = False, "", 0

    # At the beginning of a line

    def _begin_line(self, is_end: bool) -> None:
        line, is_complete = self._line(is_end)
        if len(line) > LONGEST_HELD:  # too long to wait for the rest
            line, is_complete = line[: LONGEST_HELD + 1], False
        elif not is_complete and self._has_to_wait(line):
            return
        if self._table and self._take_row(line, is_complete):
            return
        if self._fence:
            self._begin_code(line, is_complete)
        elif is_complete and not line.strip(" ") and not self._quotes:
            self._blank_lines += 1
            self._drop(len(line) + 1)
        elif is_complete and (fence := _FENCE.fullmatch(line)) and not self._quotes:
            self._open_fence(fence)
            self._drop(len(line) + 1)
        elif is_complete and is_row(line) and not self._quotes:
            self._table.append(line)
            self._drop(len(line) + 1)
        else:
            self._begin_prose(line, is_complete)

    def _has_to_wait(self, line: str) -> bool:
        if self._fence:
            return re.fullmatch(rf" *{re.escape(self._fence[0])}* *", line) is not None
        if self._table or _HELD.match(line) or _UNDECIDED.fullmatch(line):
            return True
        return _QUOTE.fullmatch(line) is not None

    def _drop(self, count: int) -> None:
        self._text = self._text[count:]

    def _make_room(self) -> None:
        """Show the blank line that was held back: only one, and none at the very beginning."""
        self._end_table()
        if self._blank_lines and self._has_shown:
            self._wrapper.put_line("")
        self._blank_lines, self._has_shown = 0, True

    def _begin_prose(self, line: str, is_complete: bool) -> None:
        if self._quotes == 0:
            self._make_room()
        dressed = self._wrapper.dressed
        if quote := _QUOTE.match(line):
            self._quotes += 1
            self._drop(quote.end())
            return
        edge, room = dressed("│ ", ("dim",)) * self._quotes, 2 * self._quotes
        if is_complete and _RULE.fullmatch(line):
            rule = dressed("─" * max(1, min(RULE, self.columns - room)), ("dim",))
            self._wrapper.put_line(edge + rule)
            self._drop(len(line) + 1)
            self._quotes = 0
        elif (heading := _HEADING.match(line)) and is_complete:
            styles = HEADINGS[min(len(heading[1]), len(HEADINGS)) - 1]
            self._wrapper.begin(edge, room, edge, room)
            self._wrapper.add(spans_of(_CLOSING_MARKS.sub("", line[heading.end() :]), styles))
            self._wrapper.end()
            self._drop(len(line) + 1)
            self._quotes = 0
        elif item := _ITEM.match(line):
            mark = BOXES[item[4]] if item[4] else item[3] or "•"
            indent = min(len(item[1]), self.columns // 4)
            first = " " * indent + mark + " "
            space = room + width(first)
            self._begin_inside(edge + first, space, edge + " " * width(first), space, item.end())
        else:
            used = len(line) - len(line.lstrip(" "))
            blanks = " " * min(used, self.columns // 4)
            self._begin_inside(edge + blanks, room + len(blanks), edge + blanks, room + len(blanks), used)

    def _begin_inside(self, first: str, at: int, hanging: str, hanging_at: int, used: int) -> None:
        self._wrapper.begin(first, at, hanging, hanging_at)
        self._drop(used)
        self._is_inside = True

    # Code

    def _open_fence(self, fence: re.Match[str]) -> None:
        self._make_room()
        self._fence, self._fence_indent = fence[2], len(fence[1])
        if fence[3]:
            self._wrapper.put_line("  " + self._wrapper.dressed(fence[3], ("dim",)))

    def _begin_code(self, line: str, is_complete: bool) -> None:
        closing = rf" *{re.escape(self._fence)}{re.escape(self._fence[0])}* *"
        if is_complete and re.fullmatch(closing, line):
            self._fence = ""
            self._drop(len(line) + 1)
            return
        indent = min(len(line) - len(line.lstrip(" ")), self._fence_indent)
        self._begin_inside("  ", 2, "  ", 2, indent)

    # Tables

    def _take_row(self, line: str, is_complete: bool) -> bool:
        """Add a row; any other line ends the table."""
        is_part = is_complete and is_row(line) and len(self._table) < MOST_ROWS
        if len(self._table) == 1:
            is_part = is_part and DELIMITERS.fullmatch(line) is not None
        if is_part:
            self._table.append(line)
            self._drop(len(line) + 1)
        else:
            self._end_table()
        return is_part

    def _end_table(self) -> None:
        """Show the table; a row without a row of delimiters is not a table."""
        table, self._table = self._table, []
        if not table:
            return
        self._make_room()
        if len(table) > 1:
            for line in drawn(table, self.columns, self._wrapper.dressed):
                self._wrapper.put_line(line)
            return
        self._wrapper.begin("", 0, "", 0)
        self._wrapper.add(spans_of(table[0]))
        self._wrapper.end()


class LiveMarkdown:
    """A `MarkdownStream` with its tail: words are shown at once, and redrawn when they are decided."""

    def __init__(self, style: Style, columns: int, base: tuple[str, ...] = ()) -> None:
        self.stream = MarkdownStream(style, columns, base)
        self._style, self._base = style, base
        self._tail = ""  # as it is shown

    def show(self, chunk: str) -> str:
        """Add a chunk; returns the text to show, with the undecided part at its end."""
        text = self.stream.show(chunk)
        tail = self._style(self.stream.tail, *self._base)
        return self._instead_of_tail(text + tail, tail)

    def end(self) -> str:
        """The remaining text, which replaces the undecided part."""
        return self._instead_of_tail(self.stream.end(), "")

    def _instead_of_tail(self, text: str, tail: str) -> str:
        """The output that replaces the tail by a text; if the text begins with the tail, only its rest."""
        before, self._tail = self._tail, tail
        if text.startswith(before):
            return text[len(before) :]
        return marked(f"\x1b[{width(unmarked(before))}D\x1b[K") + text
