"""Connections to a database: one that writes, any number that read."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ..places import is_remote
from .locks import opened_file

log = logging.getLogger("dragoman")

Level = Literal["process", "power"]

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


def connect(file: Path) -> sqlite3.Connection:
    """A connection for who writes; the file is made, its owner's alone, if it is not there."""
    os.close(opened_file(file))
    db = sqlite3.connect(file, isolation_level=None, timeout=5, check_same_thread=False)
    db.text_factory = _text
    return db


def configure(db: sqlite3.Connection, file: Path, level: Level) -> None:
    """Make a connection what every writer wants."""
    if not file.stat().st_size:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    is_shared = is_remote(file)
    if is_shared:
        log.warning("%s is on a network disk, where locks may not hold; keep it on a disk of this machine", file)
    db.execute(f"PRAGMA journal_mode = {'TRUNCATE' if is_shared else 'WAL'}").fetchall()
    db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[level]}")
    db.execute("PRAGMA secure_delete = ON").fetchall()
    db.execute("PRAGMA temp_store = MEMORY")


def connect_reader(file: Path) -> sqlite3.Connection:
    """A connection for who only reads, beside a writer that is open."""
    uri = f"{file.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
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
