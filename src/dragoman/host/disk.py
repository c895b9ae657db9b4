"""Files of our own that several processes share: taking turns, and replacing one so that no crash spoils it."""

import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path

PATIENCE = 5.0  # seconds another process may hold a file


def lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock a file as soon as nobody else holds it; false when that takes too long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)


def replace(path: Path, content: bytes) -> None:
    """Put a whole new file, for the user alone, in the place of an old one; it is on the disk when this returns."""
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
