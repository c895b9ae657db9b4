"""The repositories that an index of Git names (`gitlinks`), of which `git status` looks into each.

It does so by the settings of the repository it finds there, and they can name programs.  So a command in a sandbox
that makes a repository, and an entry for it in the index, has the owner of the workspace run a program of its own.

Part of the keeper's program: it imports the standard library and nothing else.
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
_NOWHERE = {"", ".", "..", ".git"}  # names that Git takes in no path; `..` would lead out of the workspace
_SPLIT = b"link"  # the extension that has entries in another file


def gitlinks(index: bytes) -> frozenset[str] | None:
    """The paths of repositories that an index names; None where it is not understood."""
    if _MODE not in index and _SPLIT not in index:  # as of most, which may have 100,000 entries
        return frozenset()
    for size in _DIGESTS:
        with contextlib.suppress(ValueError, IndexError, struct.error):
            found = (os.fsdecode(path) for mode, path in _entries(index, size) if mode == _GITLINK)
            return frozenset(path for path in found if _NOWHERE.isdisjoint(path.split("/")))
    return None


def gitlinks_of(root: int) -> frozenset[str] | None:
    """The same of the repository that a directory is, if it is one."""
    return gitlinks(_read(root)[0])


def _entries(index: bytes, digest: int) -> Iterator[tuple[int, bytes]]:
    """Every entry's mode and path; raises where these are not all."""
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
            raise ValueError("there is more of it elsewhere")
        at += 8 + size
    if at != len(index) - digest:
        raise ValueError("no index")


def _number(index: bytes, at: int) -> tuple[int, int]:
    """A number of one or several bytes, and where it ends."""
    byte = index[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = index[at]
        value = (value + 1) << 7 | byte & 0x7F
    return value, at + 1


class WatchedIndex:
    """The index of a workspace's repository, which a command may change, but for what it names."""

    def __init__(self, root: int) -> None:
        self._root = root
        content, self.status = _read(root)
        self._links = gitlinks(content)
        self.content = content if len(content) <= MOST_KEPT else None  # to be put back; Git makes one: `git reset`

    def names_another(self) -> bool:
        """Whether it names a repository that is there, and that it did not name before."""
        if self._links is None:  # which nobody could compare
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
    """The index of a repository; empty where there is none, or no regular file that can be read."""
    with contextlib.suppress(OSError):
        git = os.open(".git", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            fd = os.open(INDEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=git)
        finally:
            os.close(git)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode):
                return file.read(_MOST_READ), status
    return b"", None
