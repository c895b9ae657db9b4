"""Tables: columns as wide as their content, with wrapped cells on a narrower terminal."""

import re
from collections.abc import Callable, Sequence
from itertools import repeat, zip_longest

from ...foundation.columns import width
from .inline import Span, spans_of

DELIMITERS = re.compile(r" {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?\|? *")
_CELL = re.compile(r"((?:\\.|(`+)(?:(?!\2).)*\2|[^|\\])*)\|?")
_WORDS = re.compile(r"\S+|\s+")
GAP = 2  # columns between two cells
NARROWEST = 6  # the least columns of a cell

Dress = Callable[[str, tuple[str, ...]], str]
Cell = list[Span]


def is_row(line: str) -> bool:
    return line.lstrip(" ").startswith("|")


def drawn(lines: Sequence[str], columns: int, dress: Dress) -> list[str]:
    """A table, whose second line is the row of delimiters, as lines that fit."""
    head, *rows = [_cells(line) for at, line in enumerate(lines) if at != 1]
    count = max(len(row) for row in (head, *rows))
    sides = [_side(cell) for cell in re.findall(r":?-+:?", lines[1])] + ["left"] * count
    head = [[(text, (*styles, "bold")) for text, styles in cell] for cell in head]
    table = [row + [[] for _ in range(count - len(row))] for row in (head, *rows)]
    widths = _widths([max(_width(row[at]) for row in table) for at in range(count)], columns)
    if not widths:
        return _stacked(table, columns, dress)
    drawn = []
    for row in table:
        cells = [_wrapped(cell, space) for cell, space in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=list[Span]()):
            placed = map(_placed, parts, widths, sides, repeat(dress))
            drawn.append((" " * GAP).join(placed).rstrip(" "))
        if row is table[0]:
            drawn.append((" " * GAP).join(dress("─" * space, ("dim",)) for space in widths))
    return drawn


def _cells(line: str) -> list[Cell]:
    text = line.strip(" ").removeprefix("|")
    cells = []
    while text:
        found = _CELL.match(text)
        cell, end = (found[1], found.end()) if found and found.end() else (text[0], 1)
        cells.append(spans_of(cell.replace("\\|", "|").strip(" ")))
        text = text[end:]
    return cells


def _side(delimiter: str) -> str:
    return {(True, True): "middle", (False, True): "right"}.get(
        (delimiter.startswith(":"), delimiter.endswith(":")), "left"
    )


def _width(cell: Cell) -> int:
    return sum(width(text) for text, _ in cell)


def _widths(wanted: list[int], columns: int) -> list[int]:
    """The width of each column: as wanted, or with the widest ones reduced; empty if they get too narrow."""
    widths = [max(each, 1) for each in wanted]
    over = sum(widths) + GAP * (len(widths) - 1) - columns
    while over > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= NARROWEST:
            return []
        widths[widest] -= 1
        over -= 1
    return widths


def _wrapped(cell: Cell, columns: int) -> list[Cell]:
    """A cell as lines of at most so many columns."""
    lines: list[Cell] = [[]]
    at = 0
    for text, styles in cell:
        for word in _WORDS.findall(text):
            if at and at + width(word) > columns:
                lines.append([])
                at = 0
            if word.isspace() and not at:
                continue
            for char in word:  # a word may be wider than its column
                if at + width(char) > columns:
                    lines.append([])
                    at = 0
                lines[-1].append((char, styles))
                at += width(char)
    return [_joined(line) for line in lines]


def _joined(line: Cell) -> Cell:
    joined: Cell = []
    for text, styles in line:
        if joined and joined[-1][1] == styles:
            joined[-1] = (joined[-1][0] + text, styles)
        else:
            joined.append((text, styles))
    if joined:
        joined[-1] = (joined[-1][0].rstrip(" "), joined[-1][1])
    return joined


def _placed(part: Cell, space: int, side: str, dress: Dress) -> str:
    text = "".join(dress(words, styles) for words, styles in part)
    free = max(space - _width(part), 0)
    left = free if side == "right" else free // 2 if side == "middle" else 0
    return " " * left + text + " " * (free - left)


def _stacked(table: list[list[Cell]], columns: int, dress: Dress) -> list[str]:
    """A table without enough room: each cell on its own line, after the name of its column."""
    head, *rows = table
    lines = []
    for row in rows or [[[] for _ in head]]:
        for name, cell in zip(head, row, strict=True):
            words = [*name, (": ", ()), *cell] if name and cell else name or cell
            if words:
                lines += [_placed(line, 0, "left", dress) for line in _wrapped(words, max(columns, 2))]
        lines.append("")
    return lines[:-1]
