"""Replacing a piece of a text that a model quotes, exactly or nearly so."""

from msgspec import Struct

from ..errors import Error


class NoMatch(Error):
    """The quoted piece is not there, or there more than once; the words are for the model."""


class Edited(Struct, frozen=True):
    """The text after an edit, the lines it begins at, and what was not as quoted."""

    text: str
    lines: tuple[int, ...]
    warning: str = ""


def replaced(text: str, old: str, new: str, *, everywhere: bool = False) -> Edited:
    """Put `new` in the place of `old`; raises NoMatch.

    Where no piece is exactly like `old`, lines that differ from it in whitespace alone will do, if there is one
    such place.
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
    lines, wanted = text.splitlines(keepends=True), [line.strip() for line in old.strip("\r\n").splitlines()]
    bare = [line.strip() for line in lines]
    size = len(wanted)
    starts = [i for i in range(len(lines) - size + 1) if bare[i : i + size] == wanted] if any(wanted) else []
    if not starts:
        raise NoMatch("old is not in the file.")
    if len(starts) > 1:
        raise NoMatch(f"old is not in the file exactly, and nearly so in {len(starts)} places; quote it exactly.")
    start = starts[0]
    found = lines[start : start + size]
    put = _indented(new.strip("\r\n"), _indent(old.strip("\r\n").splitlines()[0]), _indent(found[0]))
    ending = "\r\n" if found[-1].endswith("\r\n") else "\n" if found[-1].endswith("\n") else ""
    after = "".join([*lines[:start], put + ending, *lines[start + size :]])
    return Edited(after, (start + 1,), "The whitespace was not as you quoted it; the file's was kept.")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())].rstrip("\r\n")


def _indented(text: str, theirs: str, ours: str) -> str:
    """A text with the indentation it was quoted with exchanged for the file's."""
    if theirs == ours:
        return text
    lines = text.split("\n")
    return "\n".join(ours + line.removeprefix(theirs) if line.strip() else line for line in lines)
