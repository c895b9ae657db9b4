"""Changed files, read from a diff."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(rb"\\(?:([0-7]{3})|(.))")
_ESCAPES = {b"n": b"\n", b"t": b"\t"}


class ChangedLines(Struct, frozen=True):
    """The lines that a diff adds to a file, and the lines of context."""

    path: str
    added: dict[int, str]
    shown: dict[int, str]


def looks_like_diff(text: str) -> bool:
    return bool(re.search(r"^(?:diff --git |--- \S.*\n\+\+\+ \S)", text, re.MULTILINE) and _HUNK.search(text))


def read_diff(text: str) -> Iterator[ChangedLines]:
    """The files to which a unified diff adds lines."""
    path: str | None = None
    added: dict[int, str] = {}
    shown: dict[int, str] = {}
    number, left = 0, 0
    for line in text.split("\n"):
        if left > 0 and line[:1] in ("+", " ", ""):
            shown[number] = line[1:].removesuffix("\r")
            if line.startswith("+"):
                added[number] = shown[number]
            number, left = number + 1, left - 1
        elif line.startswith("+++ ") and left <= 0:
            if path and added:
                yield ChangedLines(path, added, shown)
            path, added, shown = _target(line[4:]), {}, {}
        elif found := _HUNK.match(line):
            number, left = int(found[1]), int(found[2] or 1)
    if path and added:
        yield ChangedLines(path, added, shown)


def _target(name: str) -> str | None:
    """The file that a `+++` line names; None for a deleted file."""
    name = name.split("\t")[0].rstrip()
    if name.startswith('"') and name.endswith('"'):
        name = _unquoted(name[1:-1])
    if name == "/dev/null":
        return None
    return name.removeprefix("b/")


def _unquoted(name: str) -> str:
    raw = _QUOTED.sub(
        lambda found: bytes([int(found[1], 8) & 0xFF]) if found[1] else _ESCAPES.get(found[2], found[2]),
        name.encode(errors="surrogateescape"),
    )
    return raw.decode(errors="surrogateescape")


def added_lines(change: ChangedLines) -> frozenset[int] | None:
    return frozenset(change.added) or None


def matches(change: ChangedLines, lines: Sequence[str]) -> bool:
    """Whether a file has all lines that a diff shows of it."""
    return all(0 < number <= len(lines) and lines[number - 1] == text for number, text in change.shown.items())


def as_fragment(change: ChangedLines) -> str:
    """A file of which only the lines in a diff are known."""
    last = min(max(change.shown, default=0), 1_000_000)
    return "\n".join(change.shown.get(number, "") for number in range(1, last + 1))
