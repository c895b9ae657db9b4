"""A `Place` is a directory or a file that is opened once and known by its descriptor from then on.

The file system resolves a path anew each time: between a check and a use somebody can put a link where a directory
was.  So a path becomes a `Place` where it is checked, and files, sandboxes and agents' processes take that `Place`.
Whatever has the same path later is not used.
"""

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

LOOKING = os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)  # opens also what may not be read
DIRECTORY = LOOKING | os.O_DIRECTORY | os.O_NOFOLLOW

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Place:
    """An open file or directory; as a context manager it closes itself."""

    fd: int
    path: str  # its real path when it was opened
    named: str = ""  # the absolute path by which it was requested; empty where that contains `..`

    def now(self) -> str:
        """Its real path at this moment; raises FileNotFoundError when it was deleted."""
        return path_of(self.fd) or self.path

    def again(self) -> "Place":
        """The same place with a descriptor of its own."""
        return Place(os.dup(self.fd), self.path, self.named)

    @property
    def working_directory(self) -> str:
        """A path by which a process that we start can enter this directory, even if it was replaced meanwhile."""
        by_descriptor = f"/proc/self/fd/{self.fd}"
        return by_descriptor if os.path.exists(by_descriptor) else self.path

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_place(path: Path, flags: int = 0) -> Place:
    """Open a path that our own user gave, following links; `flags` can require a directory.

    Raises OSError, also for a path that no file can have.
    """
    given = os.path.join(os.getcwd(), os.fspath(path))
    try:
        fd = os.open(given, LOOKING | flags)
    except ValueError as exc:  # a NUL, or a character that cannot be encoded
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), given) from exc
    try:
        return Place(fd, path_of(fd) or os.path.realpath(given), name_of(given))
    except BaseException:
        os.close(fd)
        raise


def open_unlinked(path: str) -> Place:
    """Open a real path; raises OSError where a part of it has become a link."""
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
    """An absolute path without empty parts and `.`; empty where it contains `..`, which links can redirect."""
    names = components(path)
    return "" if ".." in names else "/" + "/".join(names)


def components(path: str) -> tuple[str, ...]:
    """The names a path is made of."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


def descend(dir_fd: int, names: Iterable[str]) -> int:
    """Open the directory that these names lead to, none of them a link.  The caller closes the descriptor."""
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
    """Whether a path is `top` or lies under it, by whole components; both are real paths from the system."""
    return f"{path}/".startswith(f"{top.rstrip('/')}/")


def path_of(fd: int) -> str | None:
    """The path of an open file or directory, from the system; None where the system cannot tell."""
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
