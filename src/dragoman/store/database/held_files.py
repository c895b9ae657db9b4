"""Descriptors of databases that are open here, each closed after the last connection to its file.

Closing any descriptor of a file gives up all POSIX locks that the process has on it, including those of SQLite.
Another process would then take the file for unused and remove the write-ahead log.  So apart from its connections,
a database is opened only here.
"""

import os
import sqlite3
import threading
from pathlib import Path

from .locks import opened_file

Identity = tuple[int, int]  # device and inode


class HeldFile:
    """The descriptor of a database, and how many connections of this process there are to it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.connections = descriptor, 0


_held: dict[Identity, HeldFile] = {}
_lock = threading.Lock()


class HoldingConnection(sqlite3.Connection):
    """A connection that shares the descriptor of its file."""

    identity: Identity | None = None

    def close(self) -> None:
        super().close()
        identity, self.identity = self.identity, None
        if identity:
            release(identity)


def hold(file: Path, *, only_reads: bool = False) -> Identity:
    """Share the descriptor of a database, which is created if it is missing and may be created."""
    with _lock:
        try:
            found = os.stat(file)
        except FileNotFoundError:
            found = None
        held = _held.get((found.st_dev, found.st_ino)) if found else None
        if held is None:
            held = HeldFile(os.open(file, os.O_RDONLY | os.O_CLOEXEC) if only_reads else opened_file(file))
            found = os.fstat(held.descriptor)
            held = _held.setdefault((found.st_dev, found.st_ino), held)
        assert found
        held.connections += 1
        return found.st_dev, found.st_ino


def release(identity: Identity) -> None:
    """Release a share; releasing the last one closes the descriptor."""
    with _lock:
        held = _held[identity]
        held.connections -= 1
        if not held.connections:
            del _held[identity]
            os.close(held.descriptor)


def header_of(identity: Identity, size: int) -> bytes:
    """The first bytes of a database that is held."""
    return os.pread(_held[identity].descriptor, size, 0)
