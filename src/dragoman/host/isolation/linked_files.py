"""Separates files of a workspace from hard links outside, where a write in place would change them, too.

Package managers make such hard links into their stores, `git clone` into the repository it copies, backups into
their files.  Before a sandbox writes in a workspace, each of these files becomes a file of its own: it is copied,
and the copy takes its name.  All names that a file has inside stay names of one file.  Directories are entered from
one descriptor to the next, so that nothing leads out of the workspace meanwhile.
"""

import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Literal, NamedTuple

from ...foundation.places import Place, descend

HardLinks = Literal["break", "refuse", "keep"]

PIECE = 1 << 20
DEEPEST = 1000  # nested directories
PATIENCE = 60.0  # seconds for all of them
MOST_COPIED = 4 * 1024**3  # bytes; a limit for the wait and the disk space


class _Name(NamedTuple):
    """A name of a file: the directories that lead to it from a root, and the last part."""

    root: Place
    way: tuple[str, ...]
    name: str

    @property
    def path(self) -> str:
        return "/".join((self.root.path, *self.way, self.name))


class Linked(Exception):
    """A file cannot be separated from its hard link outside; the text says which file, and why."""


def separate(roots: Sequence[Place], uid: int, how: HardLinks) -> None:
    """Separate all files below these roots that this user can change from hard links outside; raises Linked.

    `how`: "break" copies such files, "refuse" raises, "keep" leaves them.
    """
    if how == "keep":
        return
    found = _linked(roots, uid)
    if found and how == "refuse":
        raise Linked(f"{_shown(found)} also named outside of the workspace, where a command would change them")
    if sum(status.st_size for status, _ in found) > MOST_COPIED:
        raise Linked(f"{_shown(found)} also named outside of the workspace, and too large to be copied")
    for status, names in found:
        try:
            _break(status, names)
        except OSError as exc:
            why = f"is also named outside of the workspace and cannot be copied: {exc.strerror}"
            raise Linked(f"{names[0].path} {why}") from exc


def _linked(roots: Sequence[Place], uid: int) -> list[tuple[os.stat_result, list[_Name]]]:
    """The files with names outside, each with all its names inside."""
    seen: dict[tuple[int, int], tuple[os.stat_result, dict[tuple[int, int, str], _Name]]] = {}
    for root in roots:
        for name, parent, status in _files(root, uid):
            if status.st_uid == uid or status.st_mode & 0o022:
                _, names = seen.setdefault((status.st_dev, status.st_ino), (status, {}))
                names[(parent.st_dev, parent.st_ino, name.name)] = name  # roots may lie in one another
    return [(status, [*names.values()]) for status, names in seen.values() if len(names) < status.st_nlink]


def _files(root: Place, uid: int) -> Iterator[tuple[_Name, os.stat_result, os.stat_result]]:
    """All files below a directory that have several names, each with its directory; no link is followed.

    Raises Linked where a command could hide one from us: if the tree is too deep, takes too long or keeps us out.
    """
    waiting, deadline = list[tuple[str, ...]]([()]), time.monotonic() + PATIENCE
    while waiting:
        way = waiting.pop()
        if len(way) > DEEPEST or time.monotonic() > deadline:
            why = "is too deep" if len(way) > DEEPEST else "takes too long"
            raise Linked(f"{root.path}/{'/'.join(way[:5])}… {why} to be looked through for names of files outside")
        try:
            with closing(_Directory(root, way)) as directory, os.scandir(directory.fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((*way, entry.name))
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            yield _Name(root, way, entry.name), os.fstat(directory.fd), status
        except OSError as exc:
            if isinstance(exc, PermissionError) and _is_of(uid, root, way):
                path = "/".join((root.path, *way))
                raise Linked(f"{path} cannot be looked into for names of files outside: {exc.strerror}") from exc


def _is_of(uid: int, root: Place, way: tuple[str, ...]) -> bool:
    """Whether a directory belongs to a user, who could restore the access."""
    with suppress(OSError):
        entered = descend(root.fd, way)
        try:
            return os.fstat(entered).st_uid == uid
        finally:
            os.close(entered)
    return False


def _break(status: os.stat_result, names: Sequence[_Name]) -> None:
    """Give a copy of a file all names of the file."""
    with ExitStack() as opened:
        directories = [opened.enter_context(closing(_Directory(name.root, name.way))) for name in names]
        copy = directories[0].copied(names[0].name, status)
        opened.callback(os.close, copy)
        for directory, name in zip(directories, names, strict=True):
            directory.put(copy, name.name)


class _Directory:
    """Open a directory below an open root."""

    def __init__(self, root: Place, way: Sequence[str]) -> None:
        entered = descend(root.fd, way)
        try:
            self.fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=entered)
        finally:
            os.close(entered)

    def close(self) -> None:
        os.close(self.fd)

    def copied(self, name: str, expected: os.stat_result) -> int:
        """A nameless copy of a file with its owner, mode, times and attributes; a descriptor to close."""
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            status = os.fstat(old)
            if not stat.S_ISREG(status.st_mode) or not os.path.samestat(status, expected):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            copy = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
            try:
                _copy(old, copy, status.st_size)
                os.fchown(copy, status.st_uid, status.st_gid)
                shutil.copystat(f"/proc/self/fd/{old}", f"/proc/self/fd/{copy}")
                os.fsync(copy)
            except BaseException:
                os.close(copy)
                raise
            return copy
        finally:
            os.close(old)

    def put(self, copy: int, name: str) -> None:
        """Give a nameless file a name here, replacing the file that has it."""
        temporary = f".{secrets.token_hex(8)}"
        os.link(f"/proc/self/fd/{copy}", temporary, dst_dir_fd=self.fd, follow_symlinks=True)
        try:
            os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            os.unlink(temporary, dir_fd=self.fd)
            raise


def _copy(old: int, copy: int, size: int) -> None:
    """Copy a file of a size; raises OSError if the size has changed, because it could grow for ever."""
    copied = 0
    while piece := os.read(old, PIECE):
        copied += os.write(copy, piece)
        if copied > size:
            break
    if copied != size:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _shown(found: Sequence[tuple[os.stat_result, list[_Name]]]) -> str:
    more = f" and {len(found) - 1} more files are" if len(found) > 1 else " is"
    return f"{found[0][1][0].path}{more}"
