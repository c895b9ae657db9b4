"""A `Place` is a directory or a file that is opened once and known by its descriptor from then on.

A path is a question that the file system answers anew each time: between a check and a use somebody can put a link
where a directory was.  So a path becomes a `Place` where it is decided on, and lending, sandboxes and agents'
processes take that `Place`.  What has its name later is a stranger.
"""

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

LOOKING = os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)  # to open what may not be read
DIRECTORY = LOOKING | os.O_DIRECTORY | os.O_NOFOLLOW

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Place:
    """Something held open; a context manager that closes it."""

    fd: int
    path: str  # where it really was when it was opened
    named: str = ""  # the absolute path that it was asked for by; empty where that has `..` in it

    def now(self) -> str:
        """Where it really is at this moment; raises FileNotFoundError when it was deleted."""
        return path_of(self.fd) or self.path

    def again(self) -> "Place":
        """The same place with a descriptor of its own."""
        return Place(os.dup(self.fd), self.path, self.named)

    @property
    def working_directory(self) -> str:
        """A path by which a process of ours that is being started can enter it, whatever has its name."""
        by_descriptor = f"/proc/self/fd/{self.fd}"
        return by_descriptor if os.path.exists(by_descriptor) else self.path

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_place(path: Path, flags: int = 0) -> Place:
    """Open what a path of our own user leads to, through links; `flags` can ask for a directory.

    Raises OSError, for a path that no file can have as well.
    """
    given = os.path.join(os.getcwd(), os.fspath(path))
    try:
        fd = os.open(given, LOOKING | flags)
    except ValueError as exc:  # a NUL, or what cannot be encoded
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), given) from exc
    try:
        return Place(fd, path_of(fd) or os.path.realpath(given), name_of(given))
    except BaseException:
        os.close(fd)
        raise


def open_unlinked(path: str) -> Place:
    """Open what a real path leads to; raises OSError where a part of it has become a link."""
    *above, last = components(path) or (".",)
    top = os.open("/", DIRECTORY)
    try:
        parent = descend(top, above)
    finally:
        os.close(top)
    try:
        fd = os.open(last, LOOKING | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return Place(fd, path)


def name_of(path: str) -> str:
    """An absolute path without what means nothing; empty where `..` in it leads elsewhere than it seems."""
    names = components(path)
    return "" if ".." in names else "/" + "/".join(names)


def components(path: str) -> tuple[str, ...]:
    """The names a path is made of."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


def descend(dir_fd: int, names: Iterable[str]) -> int:
    """Open the directory these names lead to, none of which may be a link; a descriptor for the caller to close."""
    fd = os.dup(dir_fd)
    try:
        for name in names:
            child = os.open(name, DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = child
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_beneath(path: str, top: str) -> bool:
    """Whether one real path is another or lies under it, by whole components; both as the system tells them."""
    return f"{path}/".startswith(f"{top.rstrip('/')}/")


def path_of(fd: int) -> str | None:
    """Where an open file or directory is, as the system knows it; None where the system cannot say."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # no /proc here
        return _path_of_darwin(fd)
    if path.endswith(" (deleted)") and os.fstat(fd).st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return path


def _path_of_darwin(fd: int) -> str | None:
    import fcntl

    if not hasattr(fcntl, "F_GETPATH"):
        return None
    return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
