"""A process that walks a directory and matches lines: an `Order` on stdin, what was found on stdout."""

import os
import re
import signal
import sys
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ..host.permissions.matching import path_fits

LONGEST = 60  # seconds after which the process ends itself, should nobody be left to end it
MOST_FOUND = 500
MAX_FILE = 2 * 1024 * 1024
MAX_LINE = 400
NEVER = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache"}


class Order(Struct, frozen=True):
    """Where to look, which paths fit, and which lines; without a pattern for lines, the files themselves."""

    root: str
    glob: str = ""
    pattern: str = ""
    ignore_case: bool = False


class _Ignored(Struct, frozen=True):
    """One line of a .gitignore."""

    glob: str
    only_directories: bool
    keeps: bool  # it begins with !

    def fits(self, path: str, is_directory: bool) -> bool:
        return (is_directory or not self.only_directories) and path_fits(self.glob, path)


def _ignored(directory: str) -> list[_Ignored]:
    try:
        with open(os.path.join(directory, ".gitignore"), errors="replace") as file:
            lines = [line.strip() for line in file.read(MAX_FILE).splitlines()]
    except OSError:
        return []
    found = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        keeps = line.startswith("!")
        bare = line.removeprefix("!").rstrip("/")
        glob = bare if "/" in bare else f"**/{bare}"
        found.append(_Ignored(glob.removeprefix("/"), line.endswith("/"), keeps))
    return found


def _is_ignored(path: str, is_directory: bool, rules: list[tuple[str, list[_Ignored]]]) -> bool:
    verdict = False
    for base, lines in rules:
        inside = path[len(base) :].lstrip("/")
        for line in lines:
            if line.fits(inside, is_directory):
                verdict = not line.keeps
    return verdict


def files(root: str) -> Iterator[str]:
    """The regular files below a directory in order, without what is ignored and without following links."""
    if os.path.isfile(root):
        yield root
        return
    waiting: list[tuple[str, list[tuple[str, list[_Ignored]]]]] = [(root, [])]
    while waiting:
        directory, above = waiting.pop()
        rules = [*above, (directory, _ignored(directory))]
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        below = []
        for entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name in NEVER or not _can_be_told(entry.name) or _is_ignored(entry.path, is_directory, rules):
                continue
            if is_directory:
                below.append((entry.path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path
        waiting += reversed(below)


def _can_be_told(name: str) -> bool:
    """Whether a name is text; a file system takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def found(order: Order) -> Iterator[tuple[str, int, str]]:
    """Paths with the number and the text of the lines that match; files alone are line 0."""
    pattern = re.compile(order.pattern, re.IGNORECASE if order.ignore_case else 0) if order.pattern else None
    glob = order.glob if "/" in order.glob or not order.glob else f"**/{order.glob}"
    for path in files(order.root):
        if glob and not path_fits(glob, os.path.relpath(path, order.root)):
            continue
        if pattern is None:
            yield path, 0, ""
        else:
            yield from ((path, number, line) for number, line in _lines(path) if pattern.search(line))


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE)
    except OSError:
        return
    if b"\0" not in data[:8192]:
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            yield number, line[:MAX_LINE]


def main() -> None:
    signal.alarm(LONGEST)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        answer: object = [match for match, _ in zip(found(order), range(MOST_FOUND), strict=False)]
    except re.error as exc:
        answer = f"This is not a regular expression: {exc}."
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
