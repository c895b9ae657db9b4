"""Which paths of a workspace a sandbox keeps as they are: those of the table, and Git directories that are there.

In the workspace's own `.git` a command can commit, so only the files are covered that name programs or lead
elsewhere.  Git directories further down (submodules, clones, bare repositories) are covered as a whole.  So is the
place of each repository that the index names, where none may come into being.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from ....foundation.programs import own_places
from ...git_directories import is_git_directory
from ...protected import covered, is_covered
from ..keeper.gitlinks import gitlinks_of

# Never changed; and where one comes into being, what runs is ended (`protected_paths.py`).
ALWAYS = (
    *(".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info/attributes"),
    *covered("always"),
)
# In `.git`, where they exist: what leads to other Git directories, and what Git runs when it goes on.
_OF_GIT = ("modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer")
_PASSED_BY = {"node_modules", "__pycache__", ".venv", ".tox"}
MOST_ENTRIES = 5_000_000  # looked at, so that no command waits for ever
MOST_NAMED = 1000  # repositories in an index


class Endless(Exception):
    """There is more below a directory than is looked at; what is not looked at cannot be protected."""

    def __init__(self, root: str, most: int, what: str) -> None:
        super().__init__(
            f"{os.path.realpath(root)} has more than {most} {what}, too many to look for what is to be protected"
        )


def existing(root: str) -> list[str]:
    """What there is to cover below a directory, besides what is always covered; raises Endless."""
    places = [*(f".git/{name}" for name in _OF_GIT), *(path for path in covered("existing") if "/" in path)]
    found = [path for path in places if os.path.lexists(os.path.join(root, path))]
    with suppress(OSError), os.scandir(root) as entries:
        found += [entry.name for entry in entries if is_covered(entry.name)]
    top = os.path.join(os.path.realpath(root), "")
    found += [place.removeprefix(top) for place in own_places() if place.startswith(top)]
    return sorted({*found, *_git_directories(root), *_named_repositories(root)} - {*ALWAYS})


def _named_repositories(root: str) -> list[str]:
    """Where the repositories are, or would be, that the index names: `git status` goes by their settings."""
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
    """Where Git keeps data below a directory, other than in its own `.git`; links are not followed."""
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
