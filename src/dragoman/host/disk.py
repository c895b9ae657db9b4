"""Our own files that several processes share: locking them, and replacing them safely against crashes."""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 5.0  # seconds another process may hold a file


def lock(fd: int, *, shared: bool = False) -> bool:
    """Lock a file as soon as it is free; false if that takes too long."""
    from ..foundation.unix import fcntl  # the other functions do not need it

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)


@contextlib.contextmanager
def opened(
    path: str | Path, *, follow: bool = False, dir_fd: int | None = None
) -> Iterator[tuple[int, os.stat_result]]:
    """An open file and its kind; opening never blocks, not even for a pipe or a directory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        yield fd, os.fstat(fd)
    finally:
        os.close(fd)


def content(fd: int, most: int) -> bytes:
    """The content of an open file, at most `most` bytes."""
    data = b""
    while len(data) < most and (more := os.read(fd, most - len(data))):
        data += more
    return data


def plain_content(path: str | Path, most: int) -> bytes:
    """The content of a plain file, links followed.

    Raises OSError for a pipe or a device, which might never end, and for a file of more than `most` bytes.
    """
    with opened(path, follow=True) as (fd, status):
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "this is not a plain file", str(path))
        data = content(fd, most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"this is longer than {most:,} bytes", str(path))
    return data


def replace(path: Path, content: bytes) -> None:
    """Replace a file by a new one that only the user can read; it is synced when this returns."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names of a directory on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
