"""Files that version control ignores: the lines of .gitignore files, each overriding files further up."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ..disk import content, opened
from . import globs

MAX_RULES = 1024 * 1024  # bytes of a .gitignore that are read
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW  # opening a pipe must not block
_WILD = re.compile(r"[*?\[\\]")


class _Line(Struct, frozen=True):
    """One line: its pattern, and whether paths that fit are ignored."""

    glob: str
    only_directories: bool
    is_path: bool  # it fits a path from the file's directory on, not a name anywhere below
    ignores: bool


class _Table:
    """Lines grouped by how they are compared; the last one that fits decides."""

    def __init__(self, lines: Iterable[tuple[int, _Line]]) -> None:
        self._names: dict[str, int] = {}
        self._suffixes: dict[str, int] = {}
        self._ignores: dict[int, bool] = {}
        names: list[tuple[int, str]] = []
        paths: list[tuple[int, str]] = []
        for number, line in lines:
            self._ignores[number] = line.ignores
            if line.is_path:
                paths.append((number, globs.expression(line.glob)))
            elif not _WILD.search(line.glob):
                self._names[line.glob] = number
            elif line.glob.startswith("*.") and not _WILD.search(line.glob[1:]):
                self._suffixes[line.glob[1:]] = number
            else:
                names.append((number, globs.expression(line.glob)))
        self._name_pattern, self._path_pattern = _one_of(names), _one_of(paths)

    def verdict(self, path: str, name: str) -> bool | None:
        """Whether a path is ignored; None when no line says."""
        number = self._names.get(name, -1)
        if self._suffixes:
            at = name.find(".")
            while at >= 0:
                number = max(number, self._suffixes.get(name[at:], -1))
                at = name.find(".", at + 1)
        number = max(number, _fitting(self._name_pattern, name), _fitting(self._path_pattern, path))
        return self._ignores[number] if number >= 0 else None


def _one_of(numbered: Sequence[tuple[int, str]]) -> re.Pattern[str] | None:
    """A pattern whose group is the last line that fits."""
    groups = [f"(?P<l{number}>{expression})" for number, expression in reversed(numbered)]
    return re.compile("|".join(groups), re.DOTALL) if groups else None


def _fitting(pattern: re.Pattern[str] | None, text: str) -> int:
    match = pattern.fullmatch(text) if pattern else None
    return int((match.lastgroup or "")[1:]) if match else -1


class Ignoring:
    """The lines that apply in a directory."""

    def __init__(self, directory: str, text: str) -> None:
        lines = list(enumerate(_lines(text)))
        self._directory = directory
        self._directories = _Table(lines)
        self._files = _Table((number, line) for number, line in lines if not line.only_directories)

    def verdict(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Whether a path is ignored; None when no line says."""
        table = self._directories if is_directory else self._files
        inside = path[len(self._directory) + 1 :]
        return table.verdict(inside, name) if inside.isascii() else table.verdict(_bytes(inside), _bytes(name))


def is_ignored(path: str, name: str, is_directory: bool, rules: Sequence[Ignoring]) -> bool:
    """Whether a path is ignored by rules of the directories above it, the nearest last."""
    for each in reversed(rules):
        if (verdict := each.verdict(path, name, is_directory)) is not None:
            return verdict
    return False


def rules_in(directory: str, name: str = ".gitignore") -> list[Ignoring]:
    """The rules in a directory's own .gitignore, if any."""
    text = _text(os.path.join(directory, name))
    return [Ignoring(directory, text)] if text else []


def rules_above(root: str, top: str) -> list[Ignoring]:
    """The rules of the directories above: in a repository from its root, otherwise from `top` on."""
    if os.path.lexists(os.path.join(root, ".git")):
        return rules_in(root, ".git/info/exclude")
    above = list(_parents(root))
    repository = next((path for path in above if os.path.lexists(os.path.join(path, ".git"))), None)
    last = repository or top
    if last not in above:
        return []
    found = rules_in(last, ".git/info/exclude")
    for directory in reversed(above[: above.index(last) + 1]):
        found += rules_in(directory)
    return found


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        path = parent
        yield path


def _text(path: str) -> str:
    try:
        with opened(path) as (fd, status):
            data = content(fd, MAX_RULES) if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return ""
    return data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")


def _bytes(name: str) -> str:
    """A name with one character for each byte, like the rules, because Git compares bytes."""
    return os.fsencode(name).decode("latin-1")


def _lines(text: str) -> Iterator[_Line]:
    for line in text.split("\n"):
        line = _without_end(line.removesuffix("\r"))
        if not line or line.startswith("#"):
            continue
        ignores = not line.startswith("!")
        glob = line.removeprefix("!")
        only_directories = glob.endswith("/")
        glob = glob.removesuffix("/")
        if glob.strip("/"):
            yield _Line(glob.removeprefix("/"), only_directories, "/" in glob, ignores)


def _without_end(line: str) -> str:
    """A line without the blanks at its end, except one after a backslash."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare
