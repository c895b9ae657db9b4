"""Patterns for names, paths and texts, and why a pattern would never match what its author means.

`*` is any number of characters of a name, `?` is one, `**` any number of parts of a path, `{a,b}` one of several.
Bans also read `[0-9]` as one of these characters; elsewhere brackets are literal, because real names have them.
The time is at most the product of both lengths, because neither a workspace's patterns nor an agent's names are
trusted.
"""

import functools
import os
import re
from collections.abc import Container, Sequence

MAX_PATTERN = 1024  # characters
MAX_COMPARISONS = 30_000  # comparisons of a name with a pattern, for all rules and one operation
MAX_ALTERNATIVES = 100  # patterns that one pattern with braces stands for
_MEMBERS = r"(?:\][^\]/]*|[^\]/]+)"  # characters of a class; as in shells, a bracket at the start is one of them
_PLACES = re.compile(rf"\[(?:[!^]{_MEMBERS}|(?![!^]){_MEMBERS})\]|.", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_HALF_BRACES = re.compile(r"\{[^{}]*,[^{}]*$|^[^{}]*,[^{}]*\}")
_VARIABLE = re.compile(r"\$\{|\$\(|(?:^|/)\$[A-Z_][A-Z0-9_]*(?=/|$)|(?:^|/)%[A-Za-z_]+%(?=/|$)|`")


class Budget:
    """The number of comparisons that are left; names after that are not compared."""

    def __init__(self, left: int = MAX_COMPARISONS) -> None:
        self.left = left

    def spend(self, count: int) -> bool:
        """Use this number of comparisons; false if none are left."""
        self.left -= count
        return self.left >= 0

    @property
    def is_spent(self) -> bool:
        return self.left < 0


def complaint(pattern: str) -> str | None:
    """Why a pattern for paths cannot match what it seems to, and what to write instead; None if it can."""
    parts = pattern.removeprefix("/").split("/")
    if len(pattern) > MAX_PATTERN:
        return f"a path has at most {MAX_PATTERN} characters"
    if "\\" in pattern or not pattern.isprintable() or re.match("[A-Za-z]:/", pattern):
        return "is no path; parts are separated by /, and there are no drives"
    if found := _VARIABLE.search(pattern):
        return f"has {found[0].strip('/')}, and variables are not read here; write the path itself, or ~/"
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        return "begins with another user's ~, which is not read here; write the whole path"
    if pattern.startswith("!"):
        return "begins with !, and a rule has no exceptions; write a rule of another kind for them"
    if "" in parts:
        return f'has an empty part; a directory with all that is in it is "{pattern.strip("/")}/**"'
    if "." in parts or ".." in parts:
        return "is no real path; write it without . and .."
    for part in parts:
        if "**" in part and part != "**":
            return f'has {part}, and ** is a whole part; write "**/{re.sub("[*]+", "*", part)}"'
    if len(alternatives(pattern)) > MAX_ALTERNATIVES:
        return f"stands for more than {MAX_ALTERNATIVES} patterns"
    if any(_HALF_BRACES.search(each) for each in alternatives(pattern)):
        return "has braces that are not closed; write a list of patterns"
    return None


def expanded(pattern: str) -> str:
    """A pattern with the user's home directory in place of ~."""
    return os.path.expanduser(pattern) if pattern == "~" or pattern.startswith("~/") else pattern


def alternatives(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that a pattern with braces stands for, up to a limit."""
    found = [pattern]
    for _ in range(MAX_PATTERN):
        braced = next((each for each in found if _BRACES.search(each)), None)
        if braced is None or len(found) > MAX_ALTERNATIVES:
            break
        match = _BRACES.search(braced)
        assert match
        position = found.index(braced)
        one_each = [braced[: match.start()] + choice + braced[match.end() :] for choice in match[1].split(",")]
        found[position : position + 1] = one_each
    return tuple(found)


class _Class:
    """A character class: one of some characters, or one of all others."""

    def __init__(self, text: str) -> None:
        self._negated = text[:1] in ("!", "^")
        text = text[1:] if self._negated else text
        self._single = frozenset(re.sub(".-.", "", text, flags=re.DOTALL))
        self._ranges = [tuple(sorted(ends)) for ends in re.findall("(.)-(.)", text, re.DOTALL)]

    def __contains__(self, char: object) -> bool:
        is_one = char in self._single or any(low <= str(char) <= high for low, high in self._ranges)
        return is_one != self._negated


class _AnyOne:
    def __contains__(self, char: object) -> bool:
        return True


_ANY_ONE = _AnyOne()


@functools.lru_cache(4096)
def _tokens(pattern: str) -> tuple[Container[str] | None, ...]:
    """A pattern as a list of its elements; None is `*`."""
    found: list[Container[str] | None] = []
    for part in _PLACES.findall(pattern):
        if part == "*":
            found.append(None)
        elif part == "?":
            found.append(_ANY_ONE)
        else:
            found.append(_Class(part[1:-1]) if len(part) > 1 else part)
    return tuple(found)


def name_fits(pattern: str, name: str, *, classes: bool = False) -> bool:
    """Whether a name fits a pattern; with `classes`, brackets stand for one of the characters in them."""
    if not classes or "[" not in pattern:
        return text_fits(pattern, name)
    tokens = _tokens(pattern)
    at = star = -1
    i = j = 0
    while j < len(name):
        token = tokens[i] if i < len(tokens) else ""
        if i < len(tokens) and token is None:
            star, at = i, j
            i += 1
        elif token and name[j] in token:
            i, j = i + 1, j + 1
        elif star >= 0:
            at += 1
            i, j = star + 1, at
        else:
            return False
    return all(token is None for token in tokens[i:])


def path_fits(pattern: str, path: str, *, classes: bool = False, budget: Budget | None = None) -> bool:
    """Whether a path fits a pattern, part by part; `**` is any number of parts, none as well."""
    globs = [part for part in pattern.split("/") if part]
    reached = _past_stars({0}, globs)
    for part in filter(None, path.split("/")):
        if budget and not budget.spend(len(reached)):
            return False
        stays = {i for i in reached if i < len(globs) and globs[i] == "**"}
        others = (i for i in reached - stays if i < len(globs))
        steps = {i + 1 for i in others if name_fits(globs[i], part, classes=classes)}
        if not (reached := _past_stars(stays | steps, globs)):
            return False
    return len(globs) in reached


def _past_stars(reached: set[int], globs: Sequence[str]) -> set[int]:
    for i, glob in enumerate(globs):
        if i in reached and glob == "**":
            reached = reached | {i + 1}
    return reached


def text_fits(pattern: str, text: str) -> bool:
    """Whether a whole text fits a pattern of `*` and `?`: piece by piece, each where it first occurs."""
    if "*" not in pattern:
        return pattern == text or ("?" in pattern and len(text) == len(pattern) and _at(pattern, text, 0) == 0)
    first, *others = pattern.split("*")
    if _at(first, text[: len(first)], 0) != 0:
        return False
    position, last = len(first), others.pop()
    for piece in others:
        if (found := _at(piece, text, position)) < 0:
            return False
        position = found + len(piece)
    end = len(text) - len(last)
    return end >= position and _at(last, text[end:], 0) == 0


def _at(piece: str, text: str, position: int) -> int:
    """The first position of a piece without `*` in a text; -1 if it does not occur."""
    if "?" not in piece:
        return text.find(piece, position)
    found = re.compile(re.escape(piece).replace(r"\?", "."), re.DOTALL).search(text, position)
    return found.start() if found else -1
