"""What was meant to go before anybody else saw it: merge markers, debuggers, notes to oneself."""

import re
from bisect import bisect_left
from collections.abc import Iterator

from ..findings import Finding, Source

_MERGE = re.compile(r"^<{7} .+$", re.MULTILINE)
_MERGE_END = re.compile(r"^>{7} .+$", re.MULTILINE)
_WORDS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_NOTE = re.compile(
    r"(?:#|//|/\*|<!--|--|;|%|^\s*\*)[^\n]{0,200}?\b(TODO|FIXME|XXX|HACK)\b(?=[:(\s]|$)[:\s]*([^\n]{0,100})"
)
_DEBUGGERS = {
    ".py": re.compile(r"^\s*(?:breakpoint\(\)|(?:import\s+)?i?pdb(?:\.set_trace\(\))?\s*(?:$|;|#))"),
    **dict.fromkeys((".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"), re.compile(r"^\s*debugger\s*;?\s*(?:$|//)")),
    ".rb": re.compile(r"^\s*(?:binding\.(?:pry|irb)|byebug)\s*(?:$|#)"),
}
LONGEST = 2000  # characters of a line somebody wrote by hand
PROSE = (".md", ".rst", ".txt", ".adoc", ".csv", ".tsv", ".svg", ".html", ".lock")  # `#` begins no comment here


def has_merge_markers(text: str) -> bool:
    return "<<<<<<< " in text and bool(_MERGE.search(text) and _MERGE_END.search(text))


def merge_markers(source: Source) -> Iterator[Finding]:
    if not has_merge_markers(source.text):
        return
    lines = Lines(source.text)
    for found in _MERGE.finditer(source.text):
        yield Finding(
            source.path,
            lines.at(found.start()),
            "error",
            "merge-marker",
            "a merge conflict was left unresolved",
            "choose a side or join the two, then delete the three marker lines",
            is_whole=True,
        )


def debuggers(source: Source) -> Iterator[Finding]:
    pattern = next((known for suffix, known in _DEBUGGERS.items() if source.path.endswith(suffix)), None)
    if pattern is None:
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if pattern.match(line):
            yield Finding(
                source.path, number, "warning", "debugger", "a debugger is started here", "delete the line"
            )


def notes(source: Source) -> Iterator[Finding]:
    """The TODOs and FIXMEs in comments."""
    if source.path.endswith(PROSE):
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if len(line) < LONGEST and _WORDS.search(line) and (found := _NOTE.search(line)):
            word, rest = found.groups()
            said = rest.strip(" */->")
            yield Finding(
                source.path,
                number,
                "note",
                word.lower(),
                f"{word}: {said}" if said else f"{word} without a word on what is to be done",
                "do it, or move it to where work is planned",
            )


class Lines:
    """The lines of a text, found by offset."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._length = len(text)

    def at(self, offset: int) -> int:
        """The number of the line an offset is in, from 1."""
        return bisect_left(self._ends, offset) + 1

    def length(self, number: int) -> int:
        """How long a line is."""
        start = self._ends[number - 2] + 1 if number > 1 else 0
        return (self._ends[number - 1] if number <= len(self._ends) else self._length) - start
