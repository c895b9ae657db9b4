"""The repositories that a Git index names (`gitlinks`); `git status` looks into each of them.

There it obeys the settings of the repository that it finds, and they can name programs.  So a sandboxed command
that makes a repository, and an entry for it in the index, could make the owner of the workspace run the command's
program.

Part of the keeper's program: it imports the standard library only.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterator

INDEX = "index"
MOST_KEPT = 16 * 1024 * 1024  # bytes of an index that can be put back
_MOST_READ = 1 << 30
_GITLINK = 0o160000
_MODE = _GITLINK.to_bytes(4, "big")
_HEAD, _WORD = struct.Struct(">4sII"), struct.Struct(">I")
_DIGESTS = (20, 32)  # SHA-1, SHA-256
_BEFORE_DIGEST, _MODE_AT = 40, 24
_EXTENDED = 0x4000
_NOWHERE = {"", ".", "..", ".git"}  # names that Git allows in no path; `..` would lead out of the workspace
_SPLIT = b"link"  # the extension whose entries are in another file


def gitlinks(index: bytes) -> frozenset[str] | None:
    """The paths of repositories that an index names; None if it is not understood."""
    if _MODE not in index and _SPLIT not in index:  # true of most indexes, which may have 100,000 entries
        return frozenset()
    for size in _DIGESTS:
        with contextlib.suppress(ValueError, IndexError, struct.error):
            found = (os.fsdecode(path) for mode, path in _entries(index, size) if mode == _GITLINK)
            return frozenset(path for path in found if _NOWHERE.isdisjoint(path.split("/")))
    return None


def gitlinks_of(root: int) -> frozenset[str] | None:
    """The same for the index of a directory's repository, if it has one."""
    return gitlinks(_read(root)[0])


def _entries(index: bytes, digest: int) -> Iterator[tuple[int, bytes]]:
    """The mode and path of every entry; raises ValueError if the index is incomplete."""
    signature, version, count = _HEAD.unpack_from(index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    at, path = _HEAD.size, b""
    for _ in range(count):
        begun, at = at, at + _BEFORE_DIGEST + digest
        flags = int.from_bytes(index[at : at + 2], "big")
        at += 4 if flags & _EXTENDED else 2
        kept = 0
        if version == 4:
            removed, at = _number(index, at)
            kept = len(path) - removed
        end = index.index(b"\0", at)
        path = path[:kept] + index[at:end]
        at = end + 1
        if version != 4:
            at += -(at - begun) % 8
        yield _WORD.unpack_from(index, begun + _MODE_AT)[0], path
    while at < len(index) - digest:
        kind, size = index[at : at + 4], _WORD.unpack_from(index, at + 4)[0]
        if kind == _SPLIT:
            raise ValueError("a part of the index is in another file")
        at += 8 + size
    if at != len(index) - digest:
        raise ValueError("no index")


def _number(index: bytes, at: int) -> tuple[int, int]:
    """A number of one or several bytes, and the position after it."""
    byte = index[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = index[at]
        value = (value + 1) << 7 | byte & 0x7F
    return value, at + 1


class WatchedIndex:
    """The index of a workspace's repository; a command may change it, but not add repositories to it."""

    def __init__(self, root: int) -> None:
        self._root = root
        content, self.status = _read(root)
        self._links = gitlinks(content)
        self.content = content if len(content) <= MOST_KEPT else None  # to be restored; `git reset` makes a new one

    def names_another(self) -> bool:
        """Whether it names an existing repository that it did not name before."""
        if self._links is None:  # which cannot be compared
            return False
        now = gitlinks_of(self._root)
        return now is None or any(self._is_there(link) for link in now - self._links)

    def _is_there(self, link: str) -> bool:
        try:
            os.stat(f"{link}/.git", dir_fd=self._root, follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return True


def _read(root: int) -> tuple[bytes, os.stat_result | None]:
    """The index of a repository; empty if it is missing or not a readable regular file."""
    with contextlib.suppress(OSError):
        git = os.open(".git", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            fd = os.open(INDEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=git)
        finally:
            os.close(git)
        try:  # `open` does not close the descriptor of a directory
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode):
                with open(fd, "rb", closefd=False) as file:
                    return file.read(_MOST_READ), status
        finally:
            os.close(fd)
    return b"", None
