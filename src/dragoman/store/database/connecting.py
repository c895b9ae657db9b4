"""Connections to a database: one that writes, any number that read."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ..places import is_remote
from .held_files import HoldingConnection, Identity, hold, release

log = logging.getLogger("dragoman")

Level = Literal["process", "power"]

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


def connect(file: Path) -> HoldingConnection:
    """A connection for a writer; a missing file is created, readable by its owner alone."""
    return _connected(str(file), hold(file))


def configure(db: sqlite3.Connection, file: Path, level: Level) -> None:
    """Configure a connection for writing."""
    if not file.stat().st_size:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    is_shared = is_remote(file)
    if is_shared:
        log.warning("%s is on a network disk, where locks may not hold; keep it on a disk of this machine", file)
    db.execute(f"PRAGMA journal_mode = {'TRUNCATE' if is_shared else 'WAL'}").fetchall()
    db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[level]}")
    db.execute("PRAGMA secure_delete = ON").fetchall()
    db.execute("PRAGMA temp_store = MEMORY")


def connect_reader(file: Path) -> HoldingConnection:
    """A connection that only reads, beside an open writer."""
    uri = f"{file.absolute().as_uri()}?mode=ro"
    try:
        identity = hold(file, only_reads=True)
    except OSError as exc:
        raise sqlite3.OperationalError(f"unable to open database file: {exc.strerror}") from None
    return _connected(uri, identity)


def _connected(name: str, identity: Identity) -> HoldingConnection:
    try:
        db = sqlite3.connect(
            name,
            uri=name.startswith("file:"),
            isolation_level=None,
            timeout=5,
            check_same_thread=False,
            factory=HoldingConnection,
        )
    except BaseException:
        release(identity)
        raise
    db.identity = identity
    db.text_factory = _text
    return db


@contextlib.contextmanager
def all_or_nothing(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction; within another, a part of it that can be undone by itself."""
    is_part = db.in_transaction
    db.execute("SAVEPOINT part" if is_part else "BEGIN IMMEDIATE")
    try:
        yield
        db.execute("RELEASE part" if is_part else "COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # SQLite may have undone everything itself
            for undo in ("ROLLBACK TO part", "RELEASE part") if is_part else ("ROLLBACK",):
                db.execute(undo)
        raise


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
