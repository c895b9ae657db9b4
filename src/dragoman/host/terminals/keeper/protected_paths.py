"""The protected paths of a workspace: watched while a command runs in a sandbox, and restored afterwards.

A mount keeps a command from changing an existing file.  But a process that renames over the file, or removes it,
removes the mount in every sandbox; and a missing path cannot be covered by a mount.  So the kernel notifies us when
one of the paths is created (`has_changed`), and the command is ended.  When none of its processes runs any more,
each path is checked (`settle`): a new file is renamed aside, a replaced one is restored.  It cannot be told who
made the change, so nothing is deleted.  The index of a repository whose settings are protected is watched for the
repositories that it names (`gitlinks.py`).

Part of the keeper's program: it imports the standard library only.
"""

import contextlib
import ctypes
import os
import secrets
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .gitlinks import INDEX, WatchedIndex

MOST_KEPT = 1024 * 1024  # bytes of a file that can be restored
GIT, SETTINGS_OF_GIT = ".git", ".git/config"
_APPEARED = 0x80 | 0x100  # moved here, created here
_WRITTEN, _BESIDES = 0x2, 0x20000000  # written in place; added to the events already watched
_OVERFLOW = 0x4000
_ONLY_DIRECTORY, _NO_LINK = 0x01000000, 0x02000000
_EVENT = struct.Struct("iIII")

libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class _Found:
    """The state of a path: how many of its parts exist, and the last of these, unless it is a parent directory."""

    parts: int
    status: os.stat_result | None = None  # of the whole path, or of a file in place of a directory
    content: bytes | None = None  # the content of a file that is not too long

    def is_replaced_by(self, now: "_Found") -> bool:
        """Whether something new is there; a file with the same content does not count as a change."""
        if self.status is None or now.status is None:
            return now.status is not None
        if self.content is not None:
            return now.content != self.content
        return (self.status.st_dev, self.status.st_ino) != (now.status.st_dev, now.status.st_ino)


@dataclass(eq=False)
class _Root:
    """A directory that a command can write to, and the protected paths below it."""

    fd: int
    path: str
    protected: Sequence[str]
    before: dict[str, _Found] = field(default_factory=dict)
    touched: set[str] = field(
        default_factory=set
    )  # created or replaced meanwhile, so that no mount covers them any more
    index: WatchedIndex | None = None


class ProtectedPaths:
    """All protected paths of one command, below roots given by descriptor.

    Raises OSError when they cannot be watched."""

    def __init__(self, fds: Sequence[int], roots: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._roots = [_Root(os.dup(fd), *root) for fd, root in zip(fds, roots, strict=True)]
        # By watch and name: the paths of which it is a part, and whether it is the last part.
        self._names: dict[int, dict[str, list[tuple[_Root, str, bool]]]] = {}
        self._indexes: dict[int, _Root] = {}  # by watch
        self.fd = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._watch()
        for root in self._roots:
            root.before = {path: _look(root.fd, path) for path in root.protected}
            if SETTINGS_OF_GIT in root.protected:
                root.index = WatchedIndex(root.fd)

    def has_changed(self) -> bool:
        """Whether one of the paths has been created or replaced; fast when no event concerns them.

        A path that was created and removed counts: another command's supervisor may have renamed it aside.
        """
        is_concerned = has_appeared = is_indexed = False
        for watch, mask, name in self._events():
            if mask & _OVERFLOW:
                is_concerned = True
                for root in self._roots:
                    root.touched.update(root.protected)
            is_indexed |= name == INDEX and watch in self._indexes
            for root, path, is_last in self._names.get(watch, {}).get(name, ()):
                is_concerned = True
                has_appeared |= is_last
                root.touched.add(path)
        if is_concerned:
            self._watch()
        if (is_indexed or is_concerned) and any(root.index and root.index.names_another() for root in self._roots):
            return True
        return has_appeared or (
            is_concerned and any(_look(root.fd, path).status for root in self._roots for path in root.touched)
        )

    def settle(self) -> list[dict[str, str]]:
        """Rename new paths aside and restore replaced ones; returns what was done for each path."""
        self.has_changed()
        told = []
        for root in self._roots:
            # A file that was covered all the time can only have been changed by its owner.
            for path in sorted(root.touched):
                before, now = root.before[path], _look(root.fd, path)
                if before.is_replaced_by(now):
                    size = min(before.parts + (before.status is None), now.parts)
                    made = "/".join(path.split("/")[:size])
                    is_whole = size == before.parts
                    told.append({"path": f"{root.path}/{made}", **_put_right(root.fd, made, before, is_whole)})
            if root.index and root.index.names_another():
                path, before = f"{GIT}/{INDEX}", _Found(2, root.index.status, root.index.content)
                told.append({"path": f"{root.path}/{path}", **_put_right(root.fd, path, before, True)})
        return told

    def _watch(self) -> None:
        """Watch every directory in which a part of a path is or could be, unless it is watched already."""
        for root in self._roots:
            for path in root.protected:
                parts = path.split("/")
                for depth, name in enumerate(parts):
                    with _directory(root.fd, parts[:depth]) as fd:
                        if fd is None:
                            break
                        watch = self._watched(fd)
                        known = self._names.setdefault(watch, {}).setdefault(name, [])
                        part = (root, path, depth == len(parts) - 1)
                        if part not in known:
                            known.append(part)
            if SETTINGS_OF_GIT in root.protected:
                with _directory(root.fd, [GIT]) as fd:
                    if fd is not None:
                        self._indexes[self._watched(fd, _WRITTEN)] = root

    def _watched(self, directory: int, more: int = 0) -> int:
        place = f"/proc/self/fd/{directory}/.".encode()
        mask = _APPEARED | _ONLY_DIRECTORY | _NO_LINK | _BESIDES | more
        return _checked(libc.inotify_add_watch(self.fd, place, mask))

    def _events(self) -> Iterator[tuple[int, int, str]]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 1 << 16):
                at = 0
                while at < len(data):
                    watch, mask, _, size = _EVENT.unpack_from(data, at)
                    at += _EVENT.size
                    yield watch, mask, os.fsdecode(data[at : at + size].rstrip(b"\0"))
                    at += size


@contextlib.contextmanager
def _directory(root: int, parts: list[str]) -> Iterator[int | None]:
    """A directory below another, reached without links; None if there is none."""
    fd = os.dup(root)
    try:
        for name in parts:
            try:
                below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except OSError:
                yield None
                return
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _look(root: int, path: str) -> _Found:
    parts = path.split("/")
    for depth, name in enumerate(parts):
        with _directory(root, parts[:depth]) as fd:
            try:
                status = None if fd is None else os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                status = None
            if status is None or fd is None:
                return _Found(depth)
            if depth == len(parts) - 1 or not stat.S_ISDIR(status.st_mode):
                content = _content(name, fd) if stat.S_ISREG(status.st_mode) else None
                return _Found(depth + 1, status, content)
    raise AssertionError("a path has parts")


def _content(name: str, parent: int) -> bytes | None:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)

    try:
        with open(name, "rb", opener=opener) as file:
            # it may be another file by now; a pipe would block
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(MOST_KEPT + 1)
    except OSError:  # it was removed, or is a directory by now
        return None
    return content if len(content) <= MOST_KEPT else None


def _put_right(root: int, path: str, before: _Found, is_whole: bool) -> dict[str, str]:
    *above, name = path.split("/")
    aside = f"{name}.set-aside-{secrets.token_hex(4)}"
    with _directory(root, above) as parent:
        if parent is None:
            return {}
        try:
            os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if before.status is None or before.content is None or not is_whole:
                return {"kept_as": aside}
            _write(parent, name, before.content, before.status)
        except OSError as exc:
            return {"failed": exc.strerror or str(exc)}
    return {"kept_as": aside, "put_back": name}


def _write(parent: int, name: str, content: bytes, status: os.stat_result) -> None:
    """Restore a file atomically."""
    new = f".{name}.{secrets.token_hex(4)}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
    with open(fd, "wb") as file:
        if os.geteuid() == 0:
            os.fchown(fd, status.st_uid, status.st_gid)
        os.fchmod(fd, stat.S_IMODE(status.st_mode))
        file.write(content)
    os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
