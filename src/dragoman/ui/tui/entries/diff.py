"""A change of a file: unified or side by side, with line numbers and marks on the words that differ."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Literal, NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from .... import schema as s
from ....foundation.columns import width
from ....foundation.comparing import Step, compared, lines_of
from ...layout import broken
from ...legible import legible

CONTEXT = 3  # lines around a change
SIDE_BY_SIDE = 130  # columns from which a change is shown side by side, unless the user chose a layout
MAX_ROWS = 2000
MINUS = "\u2212"
MAX_MARKED = 400  # characters; the words of longer lines are not compared
_WORDS = re.compile(r"\w+|\s+|.")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

TAB = "⇥   "
_BLANKS = {
    "\t": TAB,
    **{chr(code): f"\\u{{{code:x}}}" for code in (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)},
}

Sign = Literal[" ", "+", "-", "~", "@"]
Layout = Literal["unified", "split", "auto"]
Marks = Sequence[tuple[int, int]]


class DiffRow(NamedTuple):
    """A line of one side or of both; `~` is a note between the hunks, `@` the name of a file."""

    sign: Sign
    old: int
    new: int
    text: str
    marks: Marks = ()


def rows_of(diff: s.Diff, context: int = CONTEXT) -> list[DiffRow]:
    """The lines that differ, with `context` lines around them."""
    old, new = lines_of(diff.old_text or ""), lines_of(diff.new_text)
    rows = list[DiffRow]()
    steps = compared(old, new)
    for at, step in enumerate(steps):
        if step.kind == "replace":
            rows += _replaced(old, new, step)
            continue
        size = step.old_end - step.old_start
        head = context if at else 0
        tail = context if at + 1 < len(steps) else 0
        shown = [*range(min(head, size)), *range(max(size - tail, head), size)]
        last = -1
        for place in shown:
            if place != last + 1 and rows:
                rows.append(DiffRow("~", 0, 0, f"{place - last - 1} lines"))
            i = step.old_start + place
            rows.append(DiffRow(" ", i + 1, step.new_start + place + 1, old[i].rstrip("\n")))
            last = place
    return rows + _ends(old, new)


def _replaced(old: Sequence[str], new: Sequence[str], step: Step) -> Iterator[DiffRow]:
    _, old_start, old_end, new_start, new_end = step
    pairs = dict[int, tuple[Marks, Marks]]()
    if old_end - old_start == new_end - new_start:
        pairs = {i: _marked(old[old_start + i], new[new_start + i]) for i in range(old_end - old_start)}
    for i in range(old_start, old_end):
        yield DiffRow("-", i + 1, 0, _text(old[i]), pairs.get(i - old_start, ((), ()))[0])
    for j in range(new_start, new_end):
        yield DiffRow("+", 0, j + 1, _text(new[j]), pairs.get(j - new_start, ((), ()))[1])


def _text(line: str) -> str:
    text = line.removesuffix("\n")
    return f"{text.removesuffix(chr(13))}␍" if text.endswith("\r") else text


def _ends(old: Sequence[str], new: Sequence[str]) -> list[DiffRow]:
    """A note if the last line gained or lost its line break, which would be invisible otherwise."""
    had, has = (not side or side[-1].endswith("\n") for side in (old, new))
    if had == has or not (old and new):
        return []
    return [
        DiffRow("~", 0, 0, "the last line ends with a line break now" if has else "no line break at the end now")
    ]


def _marked(old: str, new: str) -> tuple[Marks, Marks]:
    """The ranges in which two lines differ, word by word; empty if the lines have little in common."""
    if len(old) > MAX_MARKED or len(new) > MAX_MARKED:
        return (), ()
    one, other = _WORDS.findall(old.rstrip("\r\n")), _WORDS.findall(new.rstrip("\r\n"))
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if matcher.ratio() < 0.4:
        return (), ()
    gone, come = list[tuple[int, int]](), list[tuple[int, int]]()
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            gone += [(len("".join(one[:a])), len("".join(one[:b])))] if a < b else []
            come += [(len("".join(other[:c])), len("".join(other[:d])))] if c < d else []
    return gone, come


def rows_of_unified(text: str) -> list[DiffRow]:
    """The rows of a unified diff in text form, with the names of files between them."""
    rows, old, new = list[DiffRow](), 0, 0
    is_inside = False
    for each in text.split("\n"):
        if hunk := _HUNK.fullmatch(each):
            if is_inside:
                rows.append(DiffRow("~", 0, 0, ""))
            old, new, is_inside = int(hunk[1]), int(hunk[2]), True
        elif each.startswith("\\"):
            rows.append(DiffRow("~", 0, 0, each.lstrip("\\ ").lower()))
        elif is_inside and each[:1] in ("+", "-", " "):
            sign: Sign = "+" if each[0] == "+" else "-" if each[0] == "-" else " "
            rows.append(DiffRow(sign, 0 if sign == "+" else old, 0 if sign == "-" else new, each[1:]))
            old += sign != "+"
            new += sign != "-"
        elif each:
            rows.append(DiffRow("@", 0, 0, each))
            is_inside = False
    return _with_marks(rows)


def _with_marks(rows: list[DiffRow]) -> list[DiffRow]:
    """Mark the differing words where the number of added lines equals the number of removed lines."""
    at = 0
    while at < len(rows):
        gone = at
        while gone < len(rows) and rows[gone].sign == "-":
            gone += 1
        come = gone
        while come < len(rows) and rows[come].sign == "+":
            come += 1
        if gone - at == come - gone and gone > at:
            for i in range(gone - at):
                one, other = rows[at + i], rows[gone + i]
                marks = _marked(one.text, other.text)
                rows[at + i], rows[gone + i] = one._replace(marks=marks[0]), other._replace(marks=marks[1])
        at = max(come, at + 1)
    return rows


def counts(rows: Iterable[DiffRow]) -> tuple[int, int]:
    """The numbers of added and removed lines."""
    signs = [row.sign for row in rows]
    return signs.count("+"), signs.count("-")


def counted(rows: Iterable[DiffRow]) -> Content:
    """The numbers of added and removed lines, as text."""
    come, gone = counts(rows)
    return Content.assemble((f"+{come}", "$good"), " ", (f"{MINUS}{gone}", "$bad"))


class DiffView(Widget):
    """Shows a change in the layout `layout_kind`."""

    DEFAULT_CSS = "DiffView { height: auto; width: 1fr; }"
    can_focus = False

    def __init__(self, rows: Sequence[DiffRow], layout_kind: Layout = "auto") -> None:
        super().__init__()
        self._left_out = max(len(rows) - MAX_ROWS, 0)
        self._rows = list(rows[:MAX_ROWS])
        self._kind: Layout = layout_kind
        self._drawn: tuple[tuple[int, bool], Content] | None = None

    def set_layout(self, kind: Layout) -> None:
        """Show the change in another layout."""
        self._kind = kind
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines at this width."""
        return self._content(width).plain.count("\n") + 1

    def render(self) -> Content:
        """The lines of the change."""
        return self._content(self.content_size.width)

    def _content(self, columns: int) -> Content:
        is_split = self._kind == "split" or (self._kind == "auto" and columns >= SIDE_BY_SIDE)
        key = columns, is_split
        if self._drawn is None or self._drawn[0] != key:
            drawn = _split(self._rows, columns) if is_split else _unified(self._rows, columns)
            parts = list(drawn)
            if self._left_out:
                parts.append(Content.styled(f"… {self._left_out} more lines", "$quiet"))
            self._drawn = key, Content("\n").join(parts)
        return self._drawn[1]


_LOOKS = {"+": "$good on $added", "-": "$bad on $removed", " ": "", "~": "$quiet", "@": "bold"}


def _unified(rows: Sequence[DiffRow], columns: int) -> Iterator[Content]:
    digits = len(str(max((max(row.old, row.new) for row in rows), default=0)))
    room = max(columns - digits - 4, 8)
    for row in rows:
        if row.sign in ("~", "@"):
            yield _note(row, digits)
            continue
        sign = MINUS if row.sign == "-" else row.sign
        number = str(row.old if row.sign == "-" else row.new)
        for first, piece in _pieces(row, room):
            head = f"{number.rjust(digits)} │" if first else f"{' ' * digits} │"
            yield Content.assemble((head, "$quiet"), (sign if first else " ", _LOOKS[row.sign]), " ", piece)


def _split(rows: Sequence[DiffRow], columns: int) -> Iterator[Content]:
    digits = len(str(max((max(row.old, row.new) for row in rows), default=0)))
    half = (columns - 3) // 2
    room = max(half - digits - 4, 8)
    for left, right in _pairs(rows):
        if (row := left or right) is not None and row.sign in ("~", "@"):
            yield _note(row, digits)
            continue
        sides = [_side(row, digits, room, half, number) for row, number in ((left, "old"), (right, "new"))]
        for at in range(max(map(len, sides))):
            one, other = (side[at] if at < len(side) else Content(" " * half) for side in sides)
            yield Content.assemble(one, (" │ ", "$line"), other)


def _side(row: DiffRow | None, digits: int, room: int, half: int, which: str) -> list[Content]:
    if row is None:
        return [Content(" " * half)]
    number = str(row.old if which == "old" else row.new).rjust(digits)
    sign = MINUS if row.sign == "-" else row.sign
    found = []
    for first, piece in _pieces(row, room):
        head = Content.assemble((f"{number if first else ' ' * digits} ", "$quiet"), (f"{sign} ", _LOOKS[row.sign]))
        filler = " " * max(half - digits - 3 - width(piece.plain), 0)
        found.append(Content.assemble(head, piece, filler))
    return found


def _pairs(rows: Sequence[DiffRow]) -> Iterator[tuple[DiffRow | None, DiffRow | None]]:
    """Pair the rows of the left side with those of the right side."""
    gone, come = list[DiffRow](), list[DiffRow]()

    def flush() -> Iterator[tuple[DiffRow | None, DiffRow | None]]:
        for at in range(max(len(gone), len(come))):
            yield (gone[at] if at < len(gone) else None, come[at] if at < len(come) else None)
        gone.clear()
        come.clear()

    for row in rows:
        if row.sign == "-":
            if come:
                yield from flush()
            gone.append(row)
        elif row.sign == "+":
            come.append(row)
        else:
            yield from flush()
            yield row, row
    yield from flush()


def _note(row: DiffRow, digits: int) -> Content:
    if row.sign == "@":
        return Content.styled(legible(row.text), "bold")
    return Content.styled(f"{' ' * digits} ⋯ {legible(row.text)}".rstrip(), "$quiet")


def _pieces(row: DiffRow, room: int) -> Iterator[tuple[bool, Content]]:
    """The text of a row, with its marks, in pieces that fit; the flag tells the first piece."""
    text, places = _written(row)
    marks = [(places[start], places[end]) for start, end in row.marks] if places else ()
    at = 0
    for piece in broken(text, room):
        content = Content.styled(piece, _LOOKS[row.sign])
        for start, end in marks:
            if start < at + len(piece) and end > at:
                content = content.stylize("bold underline reverse", max(start - at, 0), min(end - at, len(piece)))
        yield at == 0, content
        at += len(piece)


def _written(row: DiffRow) -> tuple[str, Sequence[int]]:
    """The text of a row as shown, and the position of each character; no positions if characters are escaped.

    Added and removed lines show the blanks that look like others: tabs, unusual spaces, spaces at the end.
    """
    if (text := legible(row.text)) != row.text:
        return text.replace("\t", TAB), ()
    if row.sign not in ("+", "-"):
        return text.replace("\t", "    "), ()
    end = len(text.rstrip(" "))
    parts = [_BLANKS.get(char, char) if at < end else "·" for at, char in enumerate(text)]
    return "".join(parts), [0, *accumulate(map(len, parts))]
