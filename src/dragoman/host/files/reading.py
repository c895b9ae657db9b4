"""Opens and reads regular files without blocking and without following links."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from . import linux
from .errors import FileRefused

CHUNK = 256 * 1024

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(name: str, dir_fd: int) -> int:
    """Open a regular file of a directory without blocking; anything else is refused."""
    fd = os.open(name, _READ, dir_fd=dir_fd)
    if stat.S_ISREG(os.fstat(fd).st_mode) and not linux.is_pseudo(fd):
        return fd
    os.close(fd)
    raise FileRefused("not_a_file")


@contextmanager
def opened(name: str, dir_fd: int) -> Iterator[int]:
    """The same, for as long as the block runs."""
    fd = open_regular(name, dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def read_chunks(fd: int, offset: int = 0, *, until: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
    """A file's bytes from an offset on, until `until` is true.

    Bytes appended meanwhile are not read; a file with content but without a size may never end.
    """
    size = os.fstat(fd).st_size
    if not size and os.pread(fd, 1, 0) and not os.fstat(fd).st_size:
        raise FileRefused("not_a_file")
    while offset < size and not until() and (chunk := os.pread(fd, min(CHUNK, size - offset), offset)):
        yield chunk
        offset += len(chunk)


def digest_of(chunks: Iterable[bytes]) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def digest_at(dir_fd: int, name: str) -> str | None:
    """The SHA-256 of a file in a directory; None if there is none."""
    try:
        with opened(name, dir_fd) as fd:
            return digest_of(read_chunks(fd))
    except FileNotFoundError:
        return None
