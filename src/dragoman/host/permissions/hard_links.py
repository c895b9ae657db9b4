"""Files with several names: one of the others may be protected."""

import contextlib
import functools
import itertools
import os
import stat
from collections.abc import Iterator, Sequence

from ...foundation.directories import home_directory
from ..protected import Protection, protected_by

MOST_LOOKED_AT = 100_000  # entries of directories
SKIPPED = {"node_modules", "__pycache__", ".venv", ".tox", ".git"}  # directories with many files that tools manage
TOO_MANY = Protection(
    "a file with several names", "there are too many files here to tell what the others are", True
)


def has_other_names(path: str) -> bool:
    """Whether a file exists and has another name somewhere (a hard link)."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_nlink > 1 and stat.S_ISREG(status.st_mode)


def protected_original(path: str, roots: Sequence[str]) -> tuple[str, Protection] | None:
    """The protected file in the roots or the home directory that is the same file under another name."""
    return HardLinks(roots).of(path)


class HardLinks:
    """The hard links to protected files; they are searched once, on first use."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots

    def of(self, path: str) -> tuple[str, Protection] | None:
        """The protected file that has this path as another name, and why it is protected; None if there is none."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        known, is_complete = self._known
        if found := known.get((status.st_dev, status.st_ino)):
            return found
        is_others = not SKIPPED.isdisjoint(path.split("/"))  # package managers make such links
        return None if is_complete or is_others else (path, TOO_MANY)

    @functools.cached_property
    def _known(self) -> tuple[dict[tuple[int, int], tuple[str, Protection]], bool]:
        known: dict[tuple[int, int], tuple[str, Protection]] = {}
        budget = _Budget(MOST_LOOKED_AT)
        places = [_below(root, budget) for root in self._roots]
        home = str(home_directory())
        for other in itertools.chain(*places, _protected_in(_entries(home, budget), budget)):
            with contextlib.suppress(OSError):
                status = os.lstat(other)
                if status.st_nlink > 1 and (why := protected_by(other)):
                    known[status.st_dev, status.st_ino] = other, why
        return known, budget.left > 0


class _Budget:
    """The number of directory entries that may still be read."""

    def __init__(self, left: int) -> None:
        self.left = left


def _below(root: str, budget: _Budget) -> Iterator[str]:
    """Protected files in a directory and below, within the budget."""
    waiting = [root]
    while waiting and budget.left > 0:
        entries = _entries(waiting.pop(), budget)
        yield from _protected_in(entries, budget)
        inner = (entry for entry in entries if entry.is_dir(follow_symlinks=False))
        waiting += [entry.path for entry in inner if entry.name not in SKIPPED]


def _protected_in(entries: Sequence[os.DirEntry[str]], budget: _Budget) -> Iterator[str]:
    """Files of a directory that are protected and have several names, and files of its protected directories."""
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if protected_by(f"/{entry.name}"):
                for inner in [entry.path, *(f"{entry.path}/{name}" for name in ("config", "hooks"))]:
                    yield from (file.path for file in _entries(inner, budget))
        elif has_other_names(entry.path) and protected_by(f"/{entry.name}"):
            yield entry.path


def _entries(directory: str, budget: _Budget) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            entries = list(itertools.islice(found, max(0, budget.left)))
    except OSError:
        return []
    budget.left -= len(entries)
    return entries
