"""Diffs: version 1 has a file's text before and after, version 2 has a git patch.

A patch made here has the whole file as context, so that both texts can be restored from it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...foundation.comparing import NO_NEWLINE, compared, in_patch, lines_of

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class FileTexts(NamedTuple):
    """The parts of a file, before and after, that a patch shows; None where the file does not exist."""

    path: str
    old: str | None
    new: str | None


# ── making one ────────────────────────────────────────────────────────────────────────────────────


def make_patch(path: str, old: str | None, new: str) -> str:
    """A git patch from one text to another; `old` is None for a new file."""
    name = re.sub(r"[\x00-\x1f]", "?", path.lstrip("/"))
    head = [f"diff --git a/{name} b/{name}", *(["new file mode 100644"] if old is None else [])]
    lines = list(_changed(lines_of(old or ""), lines_of(new)))
    before, after = (sum(line[0] != sign for line in lines) for sign in "+-")
    head += [f"--- {'/dev/null' if old is None else f'a/{name}'}", f"+++ b/{name}"]
    if lines:
        head.append(f"@@ -{_span(before)} +{_span(after)} @@")
    return "\n".join([*head, *map(in_patch, lines)]) + "\n"


def _span(count: int) -> str:
    return f"1,{count}" if count else "0,0"


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    """All lines of both texts, each with its sign."""
    for kind, start, end, new_start, new_end in compared(old, new):
        if kind == "equal":
            yield from (" " + line for line in old[start:end])
        else:
            yield from ("-" + line for line in old[start:end])
            yield from ("+" + line for line in new[new_start:new_end])


# ── reading one ───────────────────────────────────────────────────────────────────────────────────


def read_patch(text: str) -> list[FileTexts]:
    """The texts that a git patch shows of each file; parts that cannot be read are left out."""
    reading = _Reading()
    for line in text.split("\n"):
        reading.take(line)
    return reading.finish()


class _Reading:
    """Reads a patch line by line."""

    def __init__(self) -> None:
        self._found: list[FileTexts] = []
        self._paths = ["", ""]
        self._texts: tuple[list[str], list[str]] | None = None  # lines of the current file, before and after
        self._left = [0, 0]  # lines that the current hunk still has, before and after
        self._last: tuple[list[str], ...] = ()  # the lists to which the last line was added

    def take(self, line: str) -> None:
        if line == NO_NEWLINE:
            for lines in self._last:
                lines[-1] = lines[-1].removesuffix("\n")
            self._last = ()
        elif self._texts is not None and any(self._left):
            self._take_text(line, self._texts)
        elif line.startswith("--- "):
            self._close()
            self._paths[0] = line[4:].partition("\t")[0]
        elif line.startswith("+++ ") and self._paths[0]:
            self._paths[1] = line[4:].partition("\t")[0]
            self._texts = ([], [])
        elif hunk := _HUNK.match(line):
            self._left = [int(count or 1) for count in hunk.groups()]

    def _take_text(self, line: str, texts: tuple[list[str], list[str]]) -> None:
        sides = [side for side, signs in enumerate((" -", " +")) if (line[:1] or " ") in signs]
        for side in sides:
            texts[side].append(line[1:] + "\n")
            self._left[side] -= 1
        self._last = tuple(texts[side] for side in sides)
        if not sides:  # not a line of a hunk, so the hunk was cut short
            self._left = [0, 0]

    def _close(self) -> None:
        if self._texts is not None:
            names = [None if name == "/dev/null" else "/" + name.partition("/")[2] for name in self._paths]
            old, new = (
                None if name is None else "".join(lines) for name, lines in zip(names, self._texts, strict=True)
            )
            self._found.append(FileTexts(names[1] or names[0] or "", old, new))
        self._paths, self._texts, self._left, self._last = ["", ""], None, [0, 0], ()

    def finish(self) -> list[FileTexts]:
        self._close()
        return self._found
