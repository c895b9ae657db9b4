"""Locks that the kernel keeps: a dead process holds none, and its number cannot be mistaken for that of a live one.

A system without such locks reads copies of stores and writes none; there, taking a lock always succeeds.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import UnsupportedSystem
from ..errors import StoreFailure

try:
    from ...foundation.unix import fcntl
except UnsupportedSystem:
    fcntl = None  # type: ignore[assignment]

ARE_KEPT = fcntl is not None
EXCLUSIVE, SHARED = (fcntl.LOCK_EX, fcntl.LOCK_SH) if fcntl else (0, 0)
NOT_KEPT = "writing sessions needs a Unix system, such as Linux or macOS; reading does not"
PATIENCE = 10.0  # seconds to wait for another process to finish its transaction
_NAPS = 0.0001, 0.002  # seconds between two tries: at first, and at most


class Claim:
    """A file that this process keeps locked while it lives: its name identifies the holder of a session."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self.name = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._path = directory / self.name
        self._fd = opened_file(self._path)
        if fcntl:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            _sweep(directory)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def is_alive(directory: Path, name: str) -> bool:
    """Whether the process that made a claim still runs."""
    try:
        fd = os.open(directory / name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if fcntl:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def _sweep(directory: Path) -> None:
    """Remove the claims of processes that were killed."""
    for path in directory.iterdir():
        if not is_alive(directory, path.name):
            path.unlink(missing_ok=True)


class Lock:
    """A lock file: one process holds it alone, or many share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = opened_file(path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it alone for a moment; waits for others, up to a limit."""
        self._take(EXCLUSIVE)
        try:
            yield
        finally:
            if fcntl:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def share(self) -> None:
        self._take(SHARED)

    def alone(self) -> bool:
        """Hold a shared lock alone if nobody else shares it; otherwise go on sharing it."""
        if not fcntl:
            return True  # the process reads a copy of its own
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            self.share()
            return False

    def close(self) -> None:
        os.close(self._fd)

    def _take(self, how: int) -> None:
        if not fcntl:
            return
        end = time.monotonic() + PATIENCE
        nap, longest = _NAPS
        while True:
            try:
                fcntl.flock(self._fd, how | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StoreFailure(f"another process keeps {self._path} locked; end it") from None
                time.sleep(nap)
                nap = min(2 * nap, longest)


def opened_file(path: Path) -> int:
    """Open a file of the store, readable by its owner alone; it is created if missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
