"""Lays out text for a terminal: cells that fill lines, and lines broken at its width."""

from collections.abc import Iterable, Sequence

from ..foundation.columns import width
from .output import unmarked
from .style import Style

GAP = 3  # columns between two cells
NARROWEST = 16  # columns for the last word of a row


def seen_width(words: str) -> int:
    """The columns that a text takes, without its colours."""
    return width(unmarked(words))


def flowing(cells: Iterable[str], columns: int, indent: str = "  ") -> list[str]:
    """Cells side by side, as many in a line as fit."""
    lines: list[str] = []
    at = columns
    for cell in cells:
        space = seen_width(cell)
        if lines and at + GAP + space <= columns:
            lines[-1] += " " * GAP + cell
            at += GAP + space
        else:
            lines.append(indent + cell)
            at = len(indent) + space
    return lines


def both_ends(left: str, right: str, columns: int, indent: str = "  ") -> list[str]:
    """Text at the left and at the right of a line, or in two lines if one has no room for both."""
    room = columns - seen_width(left) - seen_width(right)
    if not right:
        return [left]
    return [left, indent + right] if room < GAP else [left + " " * room + right]


def broken(text: str, columns: int) -> list[str]:
    """A text in pieces of at most this many columns, cut anywhere."""
    pieces, at, begin = list[str](), 0, 0
    for place, char in enumerate(text):
        if at + width(char) > max(columns, 2):
            pieces.append(text[begin:place])
            at, begin = 0, place
        at += width(char)
    return [*pieces, text[begin:]]


def wrapped(text: str, columns: int) -> list[str]:
    """A text in lines of at most this many columns, broken between words if possible."""
    if width(text) <= columns:
        return [text]
    lines, line = list[str](), ""
    for word in text.split(" "):
        if line and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        *full, line = broken(line, columns)
        lines += full
    return [*lines, line]


def in_columns(
    rows: Sequence[Sequence[str]], colours: Sequence[Sequence[str]], style: Style, columns: int
) -> list[str]:
    """Rows of cells, each column as wide as necessary.

    A last cell that does not fit goes below the others; on a narrow terminal, a row takes two lines.
    """
    if not rows:
        return []
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    starts = [sum(widths[:at]) + 2 * at for at in range(len(widths))]
    below_last = [row[-1] for row in rows if starts[-1] + width(row[-1]) > columns]
    indent = starts[-2] if all(starts[-2] + width(word) <= columns for word in below_last) else 2
    lines = []
    for row, names in zip(rows, colours, strict=True):
        cells = [style(word, *name.split()) for word, name in zip(row, names, strict=True)]
        if starts[-1] + NARROWEST > columns:
            lines += both_ends(cells[0], cells[1], columns)
            lines += [f"  {part}" for part in wrapped(" · ".join(word.strip() for word in row[2:]), columns - 2)]
            continue
        padded = [cell + " " * (space - width(word)) for cell, word, space in zip(cells, row, widths, strict=True)]
        if starts[-1] + width(row[-1]) <= columns:
            lines.append("  ".join([*padded[:-1], cells[-1]]))
        else:
            parts = wrapped(row[-1], columns - indent)
            below = [" " * indent + style(part, *names[-1].split()) for part in parts]
            lines += ["  ".join([*padded[:-2], cells[-2]]), *below]
    return lines
