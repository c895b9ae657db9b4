"""Resolves paths on open descriptors.

A workspace's directories are opened once, when the workspace is created, and never looked up again: a directory
that gets one of their names later is not used.  The path that an agent names only selects the directory to start
from, by whole components; from there on, every step goes from one descriptor to the next:

* `openat2` with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS, if the kernel has it and the path is a plain one;
* otherwise a walk that opens one component at a time with O_NOFOLLOW.  It reads a symbolic link as text: a relative
  one continues from here; an absolute one (or one that leads out) starts again from the workspace's directory that
  it names, and is refused if it names none.  `..` starts again from the directory in which the walk began, so that
  a directory moved away meanwhile cannot lead outside.

Both end in an `Entry`: a directory held open and a name in it.  Nothing outside is opened or even looked at.
"""

import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from ...foundation.places import DIRECTORY, Path, Place, components, is_beneath, open_place, path_of
from . import linux
from .errors import FileRefused

MAX_PATH = 4096  # bytes
MAX_LINKS = 40  # symbolic links in one path, as in the kernel
MAX_STEPS = 10_000  # components opened for one path
MAX_TRIES = 64  # tries while directories are being renamed

Components = tuple[str, ...]

_IS_A_LINK = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}  # O_NOFOLLOW's errors for a link


class Descriptors:
    """Open descriptors that stay open during a `with` block, even if closed meanwhile."""

    def __init__(self, *fds: int) -> None:
        self._fds = fds
        self._users = 0
        self._lock = threading.Lock()
        self.closed = False

    def __enter__(self) -> tuple[int, ...]:
        with self._lock:
            if self.closed:
                raise ValueError("this has been closed")
            self._users += 1
            return self._fds

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            self._close_unused()

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._close_unused()

    def _close_unused(self) -> None:
        if self.closed and not self._users:
            for fd in self._fds:
                os.close(fd)
            self._fds = ()


@dataclass(frozen=True)
class Root:
    """A directory held open whose files may be used; or a single file of it."""

    fd: int
    real: Components  # where the directory was when it was opened
    names: tuple[Components, ...]  # the paths that lead to it
    writable: bool = True
    only: str = ""  # the single file

    @property
    def place(self) -> Place:
        """The directory, for use while this is open."""
        return Place(self.fd, "/" + "/".join(self.real), "/" + "/".join(self.names[-1]))


class Entry:
    """A name in a directory held open; the name is not a link unless links were not to be followed.

    A `with` block gives the directory's descriptor, which stays open until the block ends.
    """

    def __init__(
        self,
        root: Root,
        fd: int,
        name: str,
        status: os.stat_result | None,
        missing: Components = (),
        trail: Components | None = None,
    ) -> None:
        self.root = root
        self.name = name  # empty: the directory itself
        self.status = status  # the status of the entry with that name, if there is one
        self.missing = missing  # directories to be created between this one and the name
        self._trail = trail  # from the root to the directory, if the system cannot tell
        self._descriptors = Descriptors(fd, os.dup(root.fd))
        self.close = self._descriptors.close

    def __enter__(self) -> int:
        return self._descriptors.__enter__()[0]

    def __exit__(self, *_: object) -> None:
        self._descriptors.__exit__()

    def path(self) -> str:
        """The present real path; refused if it is no longer inside its root."""
        with self._descriptors as (fd, top_fd):
            here = path_of(fd)
            top = path_of(top_fd) or "/".join(("", *self.root.real))
        if here is None:
            if self._trail is None:
                raise OSError(errno.EIO, "the system no longer tells where its files are")
            here = "/".join(("", *self.root.real, *self._trail))
        if not is_beneath(here, top):
            raise FileRefused("outside_workspace")
        return checked_name(os.path.join(here, *self.missing, self.name).rstrip("/") or "/")


def open_root(directory: Path | Place) -> Root:
    """Open a directory, which is then known by the given path and by its real one."""
    place = directory.again() if isinstance(directory, Place) else open_place(directory, os.O_DIRECTORY)
    names = (components(path) for path in (place.path, place.named) if path)
    return Root(place.fd, components(place.path), tuple(dict.fromkeys(names)))


def open_exception(path: Path, writable: bool) -> Root:
    """Open a directory tree, or the directory of a single file, which need not exist yet."""
    real = os.path.realpath(path)
    if os.path.isdir(real):
        tree = open_root(path)
        return Root(tree.fd, tree.real, tree.names, writable)
    parent = open_root(os.path.dirname(real))
    only = os.path.basename(real)
    names, given = [(*parent.real, only)], components(os.path.join(os.getcwd(), os.fspath(path)))
    names += [given] if ".." not in given and given not in names else []
    return Root(parent.fd, parent.real, tuple(names), writable, only)


def open_beneath(root: Place, path: str) -> Place:
    """Open a directory below a place, which no link on the way leads out of.

    `path` is absolute and begins with one of the place's paths.  Raises Refused or OSError.
    """
    roots = Roots([open_root(root)])
    try:
        with closing(roots.find(path)) as entry, entry as dir_fd:
            if entry.missing:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            fd = os.open(entry.name or ".", DIRECTORY, dir_fd=dir_fd)
        found = Place(fd, path_of(fd) or entry.path())
    finally:
        roots.close()
    if is_beneath(found.path, root.now()):
        return found
    found.close()
    raise FileRefused("outside_workspace")


class Roots:
    """All directories and files that a workspace may use."""

    def __init__(self, roots: Sequence[Root], *, use_openat2: bool = True) -> None:
        self.roots = tuple(roots)
        self._descriptors = Descriptors(*(root.fd for root in roots))
        self._ancestors = {root.real[:depth] for root in roots for depth in range(len(root.real) + 1)}
        self._use_openat2 = use_openat2 and path_of(roots[0].fd) is not None

    def close(self) -> None:
        self._descriptors.close()

    def find(self, path: str, *, relative: bool = False, follow: bool = True) -> Entry:
        """The entry that a path leads to; a link at its end is followed, unless the link itself is meant."""
        parts = _checked(path)
        with self._descriptors:
            if path.startswith("/"):
                root, rest = self._start(parts)
            elif relative:
                root, rest = self.roots[0], parts
            else:
                raise FileRefused("relative_path")
            entry = self._find_quickly(root, rest, follow) or _Walk(self, root, rest).entry(follow)
        if path.endswith(("/", "/.")) and entry.status and not stat.S_ISDIR(entry.status.st_mode):
            entry.close()
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return entry

    def _start(self, parts: list[str]) -> tuple[Root, list[str]]:
        """The root in which an absolute path starts, and the rest of it; if several fit, the innermost."""
        while True:
            fitting = [
                (len(name), root) for root in self.roots for name in root.names if tuple(parts[: len(name)]) == name
            ]
            if fitting:
                depth, root = max(fitting, key=lambda fit: fit[0])
                return root, [root.only, *parts[depth:]] if root.only else parts[depth:]
            if ".." not in parts:
                raise FileRefused("outside_workspace")
            up = parts.index("..")
            if tuple(parts[:up]) not in self._ancestors:  # its target is unknown
                raise FileRefused("outside_workspace")
            parts = parts[: max(up - 1, 0)] + parts[up + 1 :]

    def _find_quickly(self, root: Root, parts: list[str], follow: bool) -> Entry | None:
        """The entry by one call to the kernel; None if it needs a walk."""
        if not self._use_openat2 or root.only or ".." in parts[-1:]:
            return None
        way = "/".join(parts[:-1]) or "."
        for _ in range(MAX_TRIES):
            try:
                fd = linux.openat2(root.fd, way, DIRECTORY & ~os.O_NOFOLLOW, linux.BENEATH | linux.NO_MAGICLINKS)
                break
            except OSError as exc:
                if exc.errno in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a sandbox that forbids the call
                    self._use_openat2 = False
                elif exc.errno == errno.EAGAIN:
                    continue
                return None
        else:
            return None
        try:
            status = status_at(fd, parts[-1]) if parts else os.stat(fd)
            if not (follow and status and stat.S_ISLNK(status.st_mode)):
                return Entry(root, fd, "".join(parts[-1:]), status)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None


class _Walk:
    """One component at a time, each opened from the one before it without following a link."""

    def __init__(self, roots: Roots, root: Root, parts: Iterable[str]) -> None:
        self._roots = roots
        self._pending = deque(parts)
        self._links = 0
        self._fd = -1
        self._enter(root)

    def entry(self, follow: bool) -> Entry:
        try:
            return self._entry(follow)
        except BaseException:
            os.close(self._fd)
            raise

    def _entry(self, follow: bool) -> Entry:
        for _ in range(MAX_STEPS):
            if not self._pending:
                if self._root.only:  # a link to the single file's own directory, which is not lent
                    raise FileRefused("outside_workspace")
                return Entry(self._root, self._fd, "", os.stat(self._fd), trail=tuple(self._trail))
            name = self._pending.popleft()
            if name == "..":
                self._return_to_root()
            elif self._root.only and name != self._root.only:
                self._start([*self._root.real, name, *self._pending])
            elif self._pending:
                if not self._descend(name):
                    *missing, name = name, *self._pending
                    if ".." in (*missing, name):
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                    return Entry(self._root, self._fd, name, None, tuple(missing), tuple(self._trail))
            else:
                status = status_at(self._fd, name)
                if not (follow and status and stat.S_ISLNK(status.st_mode)):
                    return Entry(self._root, self._fd, name, status, trail=tuple(self._trail))
                self._follow(name)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _enter(self, root: Root) -> None:
        fd = os.dup(root.fd)
        if self._fd >= 0:
            os.close(self._fd)
        self._root, self._fd = root, fd
        self._trail: list[str] = []

    def _start(self, parts: list[str]) -> None:
        root, rest = self._roots._start(parts)
        self._enter(root)
        self._pending = deque(rest)

    def _return_to_root(self) -> None:
        if not self._trail:
            self._start([*self._root.real[:-1], *self._pending])
            return
        self._pending.extendleft(reversed(self._trail[:-1]))
        self._enter(self._root)

    def _descend(self, name: str) -> bool:
        """Enter a directory or the target of a link; false if the name does not exist."""
        try:
            if self._root.only:  # nothing else in a single file's directory is lent; but the file may be a link
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            fd = os.open(name, DIRECTORY, dir_fd=self._fd)
        except FileNotFoundError:
            return False
        except OSError as exc:
            if exc.errno not in _IS_A_LINK:
                raise
            self._follow(name)
            return True
        os.close(self._fd)
        self._fd = fd
        self._trail.append(name)
        return True

    def _follow(self, name: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        try:
            target = os.readlink(name, dir_fd=self._fd)
        except OSError as exc:
            if exc.errno != errno.EINVAL:
                raise
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from exc
        if target.startswith("/"):
            self._start([*components(target), *self._pending])
        else:
            self._pending.extendleft(reversed(components(target)))


def checked_name(path: str) -> str:
    """A path for messages; raises if it is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError as exc:
        raise FileRefused("bad_path") from exc
    return path


def _checked(path: str) -> list[str]:
    try:
        size = len(path.encode())
    except UnicodeEncodeError as exc:
        raise FileRefused("bad_path") from exc
    if not 0 < size <= MAX_PATH or "\0" in path:
        raise FileRefused("bad_path")
    return list(components(path))


def status_at(dir_fd: int, name: str) -> os.stat_result | None:
    """The status of an entry in a directory, without following links; None if there is none."""
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
