"""The files below a directory."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ..permissions.rules.patterns import alternatives
from . import globs
from .ignoring import Ignoring, is_ignored, rules_above, rules_in

NEVER = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache"}


class Skipped(Protocol):
    """Counts skipped files, and why they were skipped."""

    ignored: int
    nameless: int

    @property
    def unreadable(self) -> "Names": ...


class Names(Protocol):
    """A list of names."""

    def add(self, name: str, /) -> object: ...


def files(root: str, top: str, looked: Skipped) -> Iterator[str]:
    """The regular files below a directory in order, without ignored ones and without following links."""
    if not os.path.isdir(root):
        yield root
        return
    waiting: list[tuple[str, list[Ignoring]]] = [(root, rules_above(root, top))]
    while waiting:
        directory, above = waiting.pop()
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            looked.unreadable.add(directory)
            continue
        names = {entry.name for entry in entries}
        is_inner = ".git" in names and directory != root  # a nested repository has its own rules
        rules = [] if is_inner else above
        rules = [*rules, *rules_in(directory)] if ".gitignore" in names else rules
        below = []
        for entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name in NEVER or (rules and is_ignored(entry.path, entry.name, is_directory, rules)):
                looked.ignored += 1
            elif not (entry.name.isascii() or _is_text(entry.name)):
                looked.nameless += 1
            elif is_directory:
                below.append((entry.path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path
        waiting += reversed(below)


def _is_text(name: str) -> bool:
    """Whether a name is text; a file system accepts any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def fitting(glob: str, root: str, top: str) -> Callable[[str], bool]:
    """Whether a path fits a glob: by its name, as a whole, or from the root or the top on."""
    is_other = glob.startswith("!")  # all files except those
    wanted = [each.removeprefix("./") for each in alternatives(glob.removeprefix("!"))]
    names = _one_of(each for each in wanted if "/" not in each)
    paths = _one_of(each.removeprefix("/") for each in wanted if "/" in each)
    wholes = _one_of(each.removeprefix("/") for each in wanted if each.startswith("/"))
    starts = {len(place) + 1 for place in (root, top) if root == place or root.startswith(f"{place}/")}

    def fits(path: str) -> bool:
        if names and names.fullmatch(os.path.basename(path)):
            return not is_other
        is_wanted = any(paths.fullmatch(path, start) for start in starts) if paths else False
        return (is_wanted or bool(wholes and wholes.fullmatch(path, 1))) != is_other

    return fits


def _one_of(wanted: Iterable[str]) -> re.Pattern[str] | None:
    found = [globs.expression(f"{each}**" if each.endswith("/") else each) for each in wanted]
    return re.compile("|".join(f"(?:{each})" for each in found), re.DOTALL) if found else None
