"""Replaces a piece of a text that a model quotes exactly or almost exactly."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...errors import Error
from .lines import lines_of, lines_with_ends

QUOTE_EXACTLY = "quote it exactly, with its whitespace."


class NoMatch(Error):
    """The quoted piece is missing or occurs more than once; the message is for the model."""


class Edited(Struct, frozen=True):
    """The text after an edit, the lines where edits begin, and a warning if the quote differed."""

    text: str
    lines: tuple[int, ...]
    warning: str = ""


def replaced(text: str, old: str, new: str, *, everywhere: bool = False) -> Edited:
    """Replace `old` by `new`; raises NoMatch.

    If no piece equals `old`, lines that differ from it only in whitespace are replaced, provided that there is one
    such place and `new` can be indented like the file.
    """
    if not old:
        raise NoMatch("There is nothing to replace: old is empty.")
    if old == new:
        raise NoMatch("old and new are the same.")
    if "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    places = _places(text, old)
    if not places:
        return _nearly(text, old, new)
    if len(places) > 1 and not everywhere:
        where = ", ".join(str(_line(text, place)) for place in places[:10])
        raise NoMatch(f"old occurs {len(places)} times (lines {where}); quote more of it, or set replace_all.")
    return Edited(text.replace(old, new), tuple(_line(text, place) for place in places[:10]))


def _places(text: str, piece: str) -> list[int]:
    places, at = [], text.find(piece)
    while at >= 0:
        places.append(at)
        at = text.find(piece, at + len(piece))
    return places


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _nearly(text: str, old: str, new: str) -> Edited:
    lines, quoted = lines_with_ends(text), lines_of(old.strip("\r\n"))
    wanted, bare = [line.strip() for line in quoted], [line.strip() for line in lines]
    size = len(wanted)
    starts = [i for i in range(len(lines) - size + 1) if bare[i : i + size] == wanted] if any(wanted) else []
    if not starts:
        raise NoMatch("old is not in the file.")
    if len(starts) > 1:
        raise NoMatch(f"old is not in the file exactly, and nearly so in {len(starts)} places; {QUOTE_EXACTLY}")
    start = starts[0]
    found = lines[start : start + size]
    put = _indented(new.strip("\r\n"), quoted, found, lines)
    ending = "\r\n" if found[-1].endswith("\r\n") else "\n" if found[-1].endswith("\n") else ""
    after = "".join([*lines[:start], put + ending, *lines[start + size :]])
    return Edited(after, (start + 1,), "The whitespace was not as you quoted it; new is indented as the file is.")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indented(new: str, quoted: Sequence[str], found: Sequence[str], lines: Sequence[str]) -> str:
    """A text with its indentation replaced by the file's, line by line; raises NoMatch if that were a guess."""
    known: dict[str, str] = {}  # the file's indentation for each quoted one
    for theirs, ours in zip(quoted, found, strict=True):
        if theirs.strip() and known.setdefault(_indent(theirs), _indent(ours)) != _indent(ours):
            raise NoMatch(f"old is in the file at line depths that it does not quote; {QUOTE_EXACTLY}")
    given = new.split("\n")
    levels = _Levels(known, [*quoted, *given], lines)
    return "\n".join(levels.ours(_indent(line)) + line.lstrip(" \t") if line.strip() else line for line in given)


class _Levels:
    """Maps the indentation that a model wrote to the file's."""

    def __init__(self, known: Mapping[str, str], written: Sequence[str], lines: Sequence[str]) -> None:
        self._known = known
        self._theirs = _step(written)
        self._ours = _step(lines) or self._theirs

    def ours(self, theirs: str) -> str:
        """The indentation in the file; raises NoMatch if the quoted lines do not show it."""
        if theirs in self._known:
            return self._known[theirs]
        shifts = set()
        for quoted, found in self._known.items():
            before, after = _level(quoted, self._theirs), _level(found, self._ours)
            shifts.add(None if before is None or after is None else after - before)
        level = _level(theirs, self._theirs)
        shift = shifts.pop() if len(shifts) == 1 else None
        if level is None or shift is None or level + shift < 0:
            raise NoMatch(f"old is not in the file exactly, so how to indent new is unclear; {QUOTE_EXACTLY}")
        return self._ours * (level + shift)


def _step(lines: Sequence[str]) -> str:
    """One level of indentation: a tab, or as many spaces as all depths are multiples of; "" without any."""
    indents = {_indent(line) for line in lines if line.strip()} - {""}
    if indents and all(indent.startswith("\t") for indent in indents):
        return "\t"
    return " " * math.gcd(*(len(indent) for indent in indents if "\t" not in indent))


def _level(indent: str, step: str) -> int | None:
    """The number of levels of an indentation; None if it does not consist of whole levels."""
    if not indent:
        return 0
    count = len(indent) // len(step) if step else 0
    return count if step * count == indent else None
