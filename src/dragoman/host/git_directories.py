"""Finds Git's own directories by their content and by the links to them, without running Git."""

import os
import stat

from msgspec import Struct

from .disk import content, opened

MAX_FILE = 4096  # bytes of a file that holds a path or the name of a branch


class GitDirectory(Struct, frozen=True):
    """A repository's data directory; `top` is the directory of its files, None for a bare repository."""

    top: str | None
    path: str
    shared: str  # the same, except in a linked worktree


def find_git_directory(cwd: str) -> GitDirectory | None:
    """The repository of a directory: the nearest one above it, as Git finds it."""
    place = os.path.realpath(cwd)
    while True:
        path = directory_of(os.path.join(place, ".git"))
        if path and is_git_directory(path):
            return GitDirectory(place, path, shared_directory(path))
        if is_git_directory(place):
            return GitDirectory(None, place, shared_directory(place))
        if place == (place := os.path.dirname(place)):
            return None


def directory_of(dot_git: str) -> str | None:
    """The directory `.git`, or the one that the file `.git` names; None if it names none."""
    if os.path.isdir(dot_git):
        return os.path.realpath(dot_git)
    named = (short_text(dot_git) or "").strip()
    if not named.startswith("gitdir:"):
        return None
    path = os.path.realpath(os.path.join(os.path.dirname(dot_git), named.removeprefix("gitdir:").strip()))
    return path if os.path.isdir(path) else None


def shared_directory(path: str) -> str:
    """The directory that a Git directory shares with other worktrees."""
    named = (short_text(os.path.join(path, "commondir")) or "").strip()
    return os.path.realpath(os.path.join(path, named)) if named else path


def is_git_directory(path: str) -> bool:
    """Whether Git would accept a directory as its own."""
    if not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    shared = shared_directory(path)
    return all(os.path.isdir(os.path.join(shared, name)) for name in ("objects", "refs"))


def short_text(path: str) -> str | None:
    """The text of a short regular file; None for anything else."""
    try:
        with opened(path, follow=True) as (fd, status):
            return os.fsdecode(content(fd, MAX_FILE)) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def around(path: str) -> tuple[str, str] | None:
    """The directory that is Git's, or would be once this path exists, and the rest of the path.

    A bare repository can be anywhere and be created piece by piece; a `.git` file or `commondir` can lead anywhere.
    """
    place, inside = os.path.split(path)
    while inside and place:
        first = inside.split("/")[0].casefold()
        if _is_like_git_directory(place, first):
            return place, inside
        place, name = os.path.split(place)
        inside = f"{name}/{inside}" if name else ""
    return None


def _is_like_git_directory(place: str, new: str) -> bool:
    def has(name: str) -> bool:
        return new == name.casefold() or os.path.lexists(os.path.join(place, name))

    if has("HEAD"):
        return has("commondir") or (has("objects") and has("refs"))
    return has("objects") and has("refs") and has("config")
