"""A change of a file as lines of a terminal: numbered, in colours, with every character visible."""

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from .layout import broken
from .style import Style

COLOURS = {"+": ["green"], "-": ["red"], "@": ["cyan"], "\\": ["dim"]}
_HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


def in_colours(lines: Iterable[str], style: Style, indent: str) -> list[str]:
    """The lines of a unified diff, which are safe to show, in colours."""
    return [f"{indent}{style(line, *COLOURS.get(line[:1], ()))}" for line in lines]


def numbered(lines: Iterable[str], style: Style, indent: str, columns: int) -> Iterator[str]:
    """The lines of a unified diff with their line numbers; lines outside hunks stay as they are."""
    lines = list(lines)
    hunks = [tuple(map(int, hunk.groups())) for line in lines if (hunk := _HUNK.fullmatch(line))]
    digits = len(str(max((max(old + gone, new + come) for old, gone, new, come in hunks), default=0)))
    old = new = 0
    is_first, is_inside = True, False
    for at, line in enumerate(lines):
        if hunk := _HUNK.fullmatch(line):
            old, new = int(hunk[1]), int(hunk[3])
            if not is_first:
                yield indent + style("⋯", "dim")
            is_first, is_inside = False, True
        elif not is_inside or line[:1] not in (" ", "+", "-"):
            names = COLOURS.get(line[:1], ["bold"])
            *pieces, last = (indent + style(piece, *names) for piece in broken(line, columns - len(indent)))
            if line[:1] != "\\":  # the name of a file
                is_first, is_inside = True, False
                last += style(f"  {counted(takewhile(_is_diff, lines[at + 1 :]))}", "dim")
            yield from (*pieces, last)
        else:
            sign, text = line[0], line[1:]
            number = old if sign == "-" else new
            old += sign != "+"
            new += sign != "-"
            room = columns - len(indent) - digits - 3
            first, *further = broken(text, room)
            names = COLOURS.get(sign, [])
            yield f"{indent}{style(str(number).rjust(digits), 'dim')} {style(f'{sign} {first}', *names)}"
            for piece in further:
                yield f"{indent}{' ' * (digits + 3)}{style(piece, *names)}"


def _is_diff(line: str) -> bool:
    return line[:1] in ("@", "+", "-", " ", "\\")


def counted(lines: Iterable[str]) -> str:
    """The numbers of added and removed lines, such as `+3 -1`."""
    signs = [line[:1] for line in lines]
    return " ".join(f"{sign}{signs.count(sign)}" for sign in "+-" if sign in signs)
