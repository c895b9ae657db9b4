"""YAML without a parser: the mistakes that can be told from lines and columns, and only those that are certain.

What this does not understand (complex keys, templates) it leaves alone: a false alarm costs more than a miss.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ..findings import Finding, Severity, Source
from .leftovers import LONGEST, has_merge_markers

_PROPERTIES = re.compile(r"(?:[&!]\S*(?:\s+|$))*")
_KEY = re.compile(
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'"
    r"|(?:[^\s\-?:,\[\]{}&*!|>'\"%@`#]|[-?:](?=[^\s]))(?:(?!:\s|:$|\s#).)*?)[ \t]{0,80}:(?=\s|$)"
)
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,2}\s*(?:#.*)?$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_TEMPLATE = re.compile(r"^[ \t]*+(?:-[ \t]*+)?\{[{%]|\{%|\{\{-", re.MULTILINE)
DEEPEST = 200  # levels within levels that somebody wrote by hand
_PAIRS = {"]": "[", "}": "{"}


class Unclear(Exception):
    """The file uses what this does not understand."""


class Problem(NamedTuple):
    line: int
    code: str
    message: str
    advice: str


class Level:
    """A mapping or a list that is open, at its column."""

    def __init__(self, column: int, is_mapping: bool) -> None:
        self.column, self.is_mapping = column, is_mapping
        self.keys: dict[str, int] = {}
        self.is_waiting = True  # its last entry has no value yet


def yaml_syntax(source: Source) -> Iterator[Finding]:
    if (
        not source.path.endswith((".yaml", ".yml"))
        or _TEMPLATE.search(source.text)
        or has_merge_markers(source.text)
    ):
        return
    reader = _Reader(source.text)
    with suppress(Unclear):
        reader.read()
    for line, code, message, advice in reader.problems:
        severity: Severity = "warning" if code == "yaml-duplicate-key" else "error"
        yield Finding(source.path, line, severity, code, message, advice, is_whole=severity == "error")


class _Reader:
    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._lines = text.removeprefix("\ufeff").split("\n")
        self._at = 0  # the line being read, from 0
        self._levels: list[Level] = []

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip()
            if line.startswith(("---", "...")) and (len(line) == 3 or line[3] in " \t"):
                self._levels = []
                if line[3:].strip() and not line[3:].strip().startswith("#"):
                    raise Unclear  # a document that begins on its marker's line
            elif line.lstrip() and not line.lstrip().startswith("#") and not (line[0] == "%" and not self._levels):
                self._entry(line)
            if self._is_broken():
                return  # what follows an error is guesswork
            self._at += 1

    def _is_broken(self) -> bool:
        return any(problem.code != "yaml-duplicate-key" for problem in self.problems)

    def _entry(self, line: str) -> None:
        """A line of the block structure: list markers, then a key or a scalar."""
        content = line.lstrip(" \t")
        column = len(line) - len(content)
        if "\t" in line[:column]:
            if not (content.startswith("- ") or _KEY.match(content)) or self._continues(column, content):
                return
            self._problem("yaml-tab", "a tab is used for indentation, which YAML forbids", "indent with spaces")
            return
        while content.startswith("- ") or content == "-":
            if not self._list_item(column):
                return
            rest = content[1:].lstrip(" ")
            if "\t" in content[: len(content) - len(rest)]:
                raise Unclear
            column += len(content) - len(rest)
            content = rest
        if content:
            self._content(column, content)

    def _continues(self, column: int, content: str) -> bool:
        return bool(self._levels) and not self._levels[-1].is_waiting and not _KEY.match(content)

    def _list_item(self, column: int) -> bool:
        """A `-`: the next item of a list, the first of a new one, or (false) more of a scalar's text."""
        self._close_above(column, keep_lists=True)
        level = self._levels[-1] if self._levels else None
        if level and level.column == column and not level.is_mapping:
            level.is_waiting = True
            return True
        if level and not level.is_waiting:
            if column <= level.column:
                self._misplaced()
            return False
        if level:
            level.is_waiting = False
        self._open(Level(column, is_mapping=False))
        return True

    def _content(self, column: int, content: str) -> None:
        if content.startswith(("? ", "*")) or content == "?":
            raise Unclear
        properties = _PROPERTIES.match(content)
        skipped = properties.end() if properties else 0
        if content[:skipped].rstrip().endswith(":"):
            raise Unclear  # an anchor with a colon in its name, or a key that looks like an anchor
        key = _KEY.match(content, skipped)
        if key:
            self._key(column, key[1])
            self._value(column, content[key.end() :].strip())
        elif skipped == len(content):
            return  # an anchor or a tag of what comes on the next lines
        else:
            self._scalar(column, content[skipped:])

    def _key(self, column: int, key: str) -> None:
        self._close_above(column)
        level = self._levels[-1] if self._levels else None
        if level is None or level.column < column:
            if level and not level.is_waiting:
                self._misplaced()
                return
            if level:
                level.is_waiting = False
            level = Level(column, is_mapping=True)
            self._open(level)
        elif level.column > column or not level.is_mapping:
            self._misplaced()
            return
        name = key.strip("\"'")
        if name in level.keys and name != "<<":
            self._problem(
                "yaml-duplicate-key",
                f"the key {name!r} was given in line {level.keys[name]} already; one of the two is lost",
                "keep one of them",
            )
        level.keys.setdefault(name, self._at + 1)
        level.is_waiting = True

    def _open(self, level: Level) -> None:
        if len(self._levels) > DEEPEST:
            raise Unclear
        self._levels.append(level)

    def _close_above(self, column: int, keep_lists: bool = False) -> None:
        """Close what is indented deeper than this column, and for a key also a list at it."""
        while self._levels:
            level = self._levels[-1]
            is_list_beside_key = (
                not keep_lists
                and not level.is_mapping
                and level.column == column
                and len(self._levels) > 1
                and self._levels[-2].column == column
            )
            if level.column <= column and not is_list_beside_key:
                return
            self._levels.pop()

    def _scalar(self, column: int, content: str) -> None:
        """Text that is no key: a value on its own line, more of the one before, or a mistake."""
        level = self._levels[-1] if self._levels else None
        if level is None:
            raise Unclear  # a document that is a single value
        if level.is_waiting and column > level.column:
            self._value(level.column, content)
        elif column <= level.column and not level.is_waiting and level.is_mapping and content[0] not in "]}\"'":
            self._problem(
                "yaml-syntax", "neither a key with its value nor a list item", "write `key: value`, with a space"
            )
        elif level.is_waiting:
            raise Unclear

    def _value(self, column: int, value: str) -> None:
        """What stands behind a key or a list marker of this column."""
        properties = _PROPERTIES.match(value)
        value = value[properties.end() :] if properties else value
        if not value or value.startswith("#"):
            return
        self._levels[-1].is_waiting = False
        if _BLOCK_SCALAR.match(value):
            self._skip_block(self._levels[-1].column)
        elif value[0] in "\"'":
            self._quoted(value)
        elif value[0] in "[{":
            self._flow(value)
        elif value[0] in "@`":
            self._problem("yaml-syntax", f"no value may begin with {value[0]}", "put it in quotes")
        else:
            plain = _COMMENT.sub("", value)
            if re.search(r":(?:\s|$)", plain) and not plain.startswith("*"):
                self._problem("yaml-syntax", "a colon inside an unquoted value", "put the value in quotes")

    def _skip_block(self, column: int) -> None:
        """A block scalar: all that is indented deeper than its key."""
        while self._at + 1 < len(self._lines):
            line = self._lines[self._at + 1]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= column:
                return
            self._at += 1

    def _quoted(self, value: str) -> None:
        quote, started = value[0], self._at
        text = value[1:]
        closing = re.compile(r"(?:[^\"\\]|\\.)*+\"" if quote == '"' else r"(?:[^']|'')*+'", re.DOTALL)
        while not (found := closing.match(text)):
            self._at += 1
            if self._at >= len(self._lines):
                self._at = started
                self._problem("yaml-syntax", f"the quote {quote} is never closed", "close it")
                return
            text += "\n" + self._lines[self._at]
            if len(text) > 100_000:
                raise Unclear
        rest = _COMMENT.sub("", text[found.end() :]).strip()
        if rest and not rest.startswith((":", ",")):
            self._problem("yaml-syntax", "text behind the closing quote", "put the whole value in quotes")

    def _flow(self, value: str) -> None:
        """A list or mapping in brackets, over as many lines as it takes."""
        started, opened = self._at, ""
        text = value
        while True:
            if len(text) > LONGEST:
                raise Unclear
            for token in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|(?:^|\s)#.*$|[\[\]{}]|[\"']", text):
                word = token[0]
                if word in ("[", "{"):
                    opened += word
                elif word in _PAIRS:
                    if opened[-1:] != _PAIRS[word]:
                        self._problem("yaml-syntax", f"{word} closes nothing that is open", "check the brackets")
                        return
                    opened = opened[:-1]
                elif word in ('"', "'"):
                    previous = text[: token.start()].rstrip()[-1:]
                    if previous in ("", "[", "{", ",", ":"):
                        raise Unclear  # a string over several lines
                if not opened:
                    return
            self._at += 1
            if self._at >= len(self._lines):
                self._at = started
                self._problem("yaml-syntax", f"the bracket {opened[0]} is never closed", "close it")
                return
            text = self._lines[self._at]

    def _misplaced(self) -> None:
        self._problem(
            "yaml-indentation", "indented like nothing it could belong to", "align it with the entries beside it"
        )

    def _problem(self, code: str, message: str, advice: str) -> None:
        self.problems.append(Problem(self._at + 1, code, message, advice))
