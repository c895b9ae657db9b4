"""Connections to a store's database: one that writes, any number that read."""

import os
import sqlite3
from pathlib import Path
from typing import Literal

from .locks import opened_file
from .places import is_remote

Level = Literal["process", "power"]

FILE = "sessions.db"
SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


def connect(path: Path) -> sqlite3.Connection:
    """The store's database, made if it is not there."""
    os.close(opened_file(path / FILE))
    db = sqlite3.connect(path / FILE, isolation_level=None, timeout=5, check_same_thread=False)
    db.text_factory = _text
    return db


def configure(db: sqlite3.Connection, path: Path, level: Level) -> None:
    """Make a connection what every writer wants."""
    if not (path / FILE).stat().st_size:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute(f"PRAGMA journal_mode = {'TRUNCATE' if is_remote(path) else 'WAL'}").fetchall()
    db.execute(f"PRAGMA synchronous = {SYNCHRONOUS[level]}")
    db.execute("PRAGMA secure_delete = ON").fetchall()
    db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()  # `transaction` does it, under the lock
    db.execute("PRAGMA temp_store = MEMORY")


def connect_reader(path: Path) -> sqlite3.Connection:
    """The same, for reading alone, beside a writer that is open."""
    db = sqlite3.connect(f"file:{path / FILE}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    db.text_factory = _text
    return db


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
