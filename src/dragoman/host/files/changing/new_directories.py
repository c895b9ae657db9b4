"""Creates the directories above a new file, and removes them if the change fails.

Each is created under a temporary name and recorded with its identity before it gets its own name.  So after a kill
at any moment, our directories can be told from the user's.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from ....foundation.places import DIRECTORY, descend
from .. import linux
from .exchanging import sync_directory
from .locations import Identity, identity_of

SYNCED_EACH = 16  # directories that are synced one by one
SOMEBODYS = {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY}  # not ours, or no longer
AT_A_TIME = 128  # descriptors held open while removing: a path can be deeper than the limit of descriptors

Tell = Callable[[int, Identity], None]


def make_directories(top: int, names: Sequence[str], temp: str, tell: Tell) -> int:
    """Create missing directories in one another; returns a descriptor of the last, for the caller to close.

    `tell` gets the depth and the identity of each new directory before it has its name.
    """
    fd = os.dup(top)
    made: list[int] = []
    try:
        for depth, name in enumerate(names):
            try:
                child = os.open(name, DIRECTORY, dir_fd=fd)
            except FileNotFoundError:
                made.append(depth)
                child = _make(fd, temp, name, partial(tell, depth))
            os.close(fd)
            fd = child
        _sync(top, names, made)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make(dir_fd: int, temp: str, name: str, tell: Callable[[Identity], None]) -> int:
    os.mkdir(temp, dir_fd=dir_fd)
    child = os.open(temp, DIRECTORY, dir_fd=dir_fd)
    try:
        tell(identity_of(child))
        linux.rename_new(dir_fd, temp, name)
        return child
    except OSError as exc:
        os.close(child)
        os.rmdir(temp, dir_fd=dir_fd)
        if isinstance(exc, FileExistsError):  # somebody else has just created it
            return os.open(name, DIRECTORY, dir_fd=dir_fd)
        if exc.errno not in linux.UNSUPPORTED:
            raise
    is_ours = True
    try:
        os.mkdir(name, dir_fd=dir_fd)
    except FileExistsError:
        is_ours = False
    child = os.open(name, DIRECTORY, dir_fd=dir_fd)
    if is_ours:
        tell(identity_of(child))
    return child


def remove_directories(top: int, names: Sequence[str], temp: str, made: Mapping[int, Identity]) -> None:
    """Remove directories that are not needed after all, innermost first; used ones stay."""
    for end in range(len(names), 0, -AT_A_TIME):
        depths = range(max(0, end - AT_A_TIME), end)
        try:
            first = descend(top, names[: depths.start])
        except OSError:  # one of them is missing
            continue
        _remove_some(first, names, temp, made, depths)


def _remove_some(first: int, names: Sequence[str], temp: str, made: Mapping[int, Identity], depths: range) -> None:
    fds = [first]
    try:
        with suppress(OSError):
            fds += (os.open(name, DIRECTORY, dir_fd=fds[-1]) for name in names[depths.start : depths.stop])
        for depth, above in reversed(list(enumerate(fds, depths.start))):
            _remove(above, temp)
            inside = fds[depth + 1 - depths.start :][:1]
            if inside and depth in made and identity_of(inside[0]) == made[depth]:
                _remove(above, names[depth])
    finally:
        for fd in fds:
            os.close(fd)


def _remove(dir_fd: int, name: str) -> None:
    """Remove a directory unless it is in use; raises OSError if that fails now."""
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except OSError as exc:
        if exc.errno not in SOMEBODYS:
            raise


def _sync(top: int, names: Sequence[str], made: Sequence[int]) -> None:
    """Sync new directories; many of them by one call, because one call each would take seconds."""
    fd, wanted = os.dup(top), set(made)
    try:
        if len(made) > SYNCED_EACH and _sync_all(fd):
            return
        for depth in range(max(made, default=-1) + 1):
            if depth in wanted:
                sync_directory(fd)
            child = os.open(names[depth], DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = child
    finally:
        os.close(fd)


def _sync_all(fd: int) -> bool:
    """Sync a whole file system; false if the system cannot."""
    try:
        file = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    except PermissionError:
        return False
    try:
        linux.sync_filesystem(file)
    except OSError as exc:
        if exc.errno not in linux.UNSUPPORTED:
            raise
        return False
    finally:
        os.close(file)
    return True
