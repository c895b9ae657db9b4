"""The protected paths of a workspace: those of the table, and existing Git directories.

A command can commit in the workspace's own `.git`, so only files there that name programs or other directories are
covered.  Git directories further down (submodules, clones, bare repositories) are covered as a whole.  So is the
path of each repository that the index names, where none may be created.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from ....foundation.programs import own_places
from ...git_directories import is_git_directory
from ...protected import covered, is_covered
from ..keeper.gitlinks import gitlinks_of

# Never changed; if one is created, the command is ended (`protected_paths.py`).
ALWAYS = (
    *(".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info/attributes"),
    *covered("always"),
)
# In `.git`, if they exist: files that name other Git directories, and commands that Git runs when it continues.
_OF_GIT = ("modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer")
_PASSED_BY = {"node_modules", "__pycache__", ".venv", ".tox"}
MOST_ENTRIES = 5_000_000  # directories that are searched, so that no command waits for ever
MOST_NAMED = 1000  # repositories in an index


class Endless(Exception):
    """A directory has more below it than is searched; the rest could not be protected."""

    def __init__(self, root: str, most: int, what: str) -> None:
        super().__init__(
            f"{os.path.realpath(root)} has more than {most} {what}, too many to search for paths to protect"
        )


def existing(root: str) -> list[str]:
    """The existing paths to cover below a directory, besides those that are always covered; raises Endless."""
    places = [*(f".git/{name}" for name in _OF_GIT), *(path for path in covered("existing") if "/" in path)]
    found = [path for path in places if os.path.lexists(os.path.join(root, path))]
    with suppress(OSError), os.scandir(root) as entries:
        found += [entry.name for entry in entries if is_covered(entry.name)]
    top = os.path.join(os.path.realpath(root), "")
    found += [place.removeprefix(top) for place in own_places() if place.startswith(top)]
    return sorted({*found, *_git_directories(root), *_named_repositories(root)} - {*ALWAYS})


def _named_repositories(root: str) -> list[str]:
    """The paths of the repositories that the index names, existing or not: `git status` obeys their settings."""
    with suppress(OSError):
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            named = gitlinks_of(fd) or ()
        finally:
            os.close(fd)
        if len(named) > MOST_NAMED:
            raise Endless(root, MOST_NAMED, "repositories in its index")
        return [f"{path}/.git" for path in named]
    return []


def _git_directories(root: str) -> Iterator[str]:
    """The Git directories below a directory, other than its own `.git`; links are not followed."""
    left = MOST_ENTRIES
    waiting = [root]
    while waiting:
        if left <= 0:
            raise Endless(root, MOST_ENTRIES, "entries")
        directory = waiting.pop()
        try:
            with os.scandir(directory) as found:
                entries = [entry for entry in found if not entry.is_symlink()]
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.name == ".git":
                if directory != root:
                    yield os.path.relpath(entry.path, root)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _PASSED_BY:
                if is_git_directory(entry.path):
                    yield os.path.relpath(entry.path, root)
                else:
                    waiting.append(entry.path)
