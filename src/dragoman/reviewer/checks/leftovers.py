"""Leftovers: merge markers, debuggers, notes."""

import functools
import io
import os
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterator

from ..findings import Finding, Source

_MERGE = re.compile(r"^<{7} .+$", re.MULTILINE)
_MERGE_END = re.compile(r"^>{7} .+$", re.MULTILINE)
_NOTE_WORDS = ("TODO", "FIXME", "XXX", "HACK")
_WORDS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_MARKS = r"#|//|/\*|<!--|^\s*\*"
_FURTHER_MARKS = {  # the beginnings of comments in some languages
    **dict.fromkeys((".el", ".lisp", ".clj", ".scm", ".ini", ".cfg", ".asm"), ";"),
    **dict.fromkeys((".sql", ".lua", ".hs", ".elm", ".vhd", ".adb"), "--"),
    **dict.fromkeys((".tex", ".sty", ".m", ".erl"), "%"),
}


@functools.cache
def _note(marks: str) -> re.Pattern[str]:
    """A pattern for notes: they begin a comment, or a colon or a person follows; elsewhere it is just a word."""
    return re.compile(
        rf"(?:{marks})(?:[^\w\n\"'`]{{0,10}}|[^\n]{{0,200}}?(?=\b[A-Z]+[:(]))(?<![,=|\"'`])"
        r"\b(TODO|FIXME|XXX|HACK)\b(?=[:(\s]|$)[:\s]*([^\n]{0,100})"
    )


_DEBUGGERS = {
    ".py": re.compile(r"(?<![\w.])(?:breakpoint|(?:i|pu)?pdb\.set_trace|pudb\.set_trace)\(|^\s*i?pdb\s*$"),
    **dict.fromkeys(
        (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"), re.compile(r"(?:^|[;{})\s])debugger\s*(?=;|\}|$)")
    ),
    ".rb": re.compile(
        r"(?:^|[;{|]|\bthen|\bdo)\s*(?:binding\.(?:pry|irb)|byebug)\s*(?=$|[;}#]|if\b|unless\b|end\b)"
    ),
}
_DEBUGGER_WORDS = ("breakpoint", "pdb", "pudb", "debugger", "binding", "byebug")
# Strings and comments of one line; an unclosed string began before the line or continues after it.
_NO_CODE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?|(?:#|//|/\*|^\s*\*).*")
LONGEST = 2000  # characters of a line written by hand
PROSE = (
    ".md",
    ".rst",
    ".txt",
    ".adoc",
    ".csv",
    ".tsv",
    ".svg",
    ".html",
    ".lock",
    ".patch",
    ".diff",
)  # `#` does not begin a comment in these


_PROSE_NAMES = re.compile(
    r"(?:^|/)(?:licen[cs]es?|copying|copyright|notice|authors|contributors|patents|readme|changes|changelog|news|todo|pkg-info|metadata)"
    r"(?:-[\w.-]+)?$",
    re.IGNORECASE,
)


def is_prose(path: str) -> bool:
    """Whether a file is text for people only."""
    return path.endswith(PROSE) or bool(_PROSE_NAMES.search(path))


def has_merge_markers(text: str) -> bool:
    return "<<<<<<< " in text and bool(_MERGE.search(text) and _MERGE_END.search(text))


def merge_markers(source: Source) -> Iterator[Finding]:
    if not has_merge_markers(source.text):
        return
    lines = TextLines(source.text)
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
    if pattern is None or not any(word in source.text for word in _DEBUGGER_WORDS):
        return
    for number, line in enumerate(source.text.split("\n"), 1):
        if len(line) < LONGEST and pattern.search(line) and pattern.search(_NO_CODE.sub(_blank, line)):
            yield started_here(source.path, number)


def started_here(path: str, line: int) -> Finding:
    """The finding for a debugger that was left behind."""
    return Finding(path, line, "warning", "debugger", "a debugger is started here", "delete it")


def _blank(found: re.Match[str]) -> str:
    return "_" * len(found[0])


def notes(source: Source) -> Iterator[Finding]:
    """The TODOs and FIXMEs in comments."""
    if is_prose(source.path) or not any(word in source.text for word in _NOTE_WORDS):
        return
    further = _FURTHER_MARKS.get(os.path.splitext(source.path)[1])
    note = _note(f"{_MARKS}|{further}" if further else _MARKS)
    for number, line in _commented(source):
        if len(line) < LONGEST and _WORDS.search(line) and (found := note.search(line)):
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


def _commented(source: Source) -> Iterator[tuple[int, str]]:
    """The lines that may have a comment, with their numbers; of whole Python files, only the comments."""
    if source.path.endswith((".py", ".pyi")) and not source.is_fragment:
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
        except (tokenize.TokenError, SyntaxError):
            pass
        else:
            yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
            return
    yield from enumerate(source.text.split("\n"), 1)


class TextLines:
    """The lines of a text, found by offset."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._length = len(text)

    def at(self, offset: int) -> int:
        """The number, from 1, of the line that contains an offset."""
        return bisect_left(self._ends, offset) + 1

    def length(self, number: int) -> int:
        """The length of a line."""
        start = self._ends[number - 2] + 1 if number > 1 else 0
        return (self._ends[number - 1] if number <= len(self._ends) else self._length) - start
