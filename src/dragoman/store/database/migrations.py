"""The database's layout, version by version: each step is taken once, in one transaction, after a copy was made."""

import contextlib
import functools
import sqlite3
from pathlib import Path

from ..errors import StoreFailure
from .guarded import Schema, schema_of

COPY = "before-layout-{}.db"
STEPS = (
    # 1: sessions with their heads, records with their checksums, the authors' states
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES ('sessions', 0), ('layout', 1);
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, head BLOB NOT NULL, crc INTEGER NOT NULL, holder TEXT, suspect TEXT
    );
    CREATE TABLE records (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,
        body BLOB NOT NULL, crc INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX records_in_order ON records (session, first);
    CREATE TABLE states (
        session TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL, UNIQUE (session, key)
    )
    """,
)


def bring_up_to_date(db: sqlite3.Connection, path: Path) -> None:
    """Take the steps that a store has not taken yet; a store of a later version is left alone."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != _written_down(db):
        raise sqlite3.DatabaseError("its header is damaged")
    if version > len(STEPS):
        raise StoreFailure(
            f"{path} was written by a newer Dragoman (layout {version}, this one knows {len(STEPS)}); use that one"
        )
    for leftover in path.glob(COPY.format("*")):  # the copy of an attempt that was cut short
        leftover.unlink()
    if version == len(STEPS):
        return
    copy = path / COPY.format(len(STEPS))
    try:
        if version:
            db.execute("VACUUM INTO ?", (str(copy),))
            copy.chmod(0o600)
        _take_steps(db, version)
    except sqlite3.Error as exc:
        raise StoreFailure(f"{path} could not be brought to layout {len(STEPS)}: {exc}; it is as it was") from exc
    finally:
        copy.unlink(missing_ok=True)


def _take_steps(db: sqlite3.Connection, version: int) -> None:
    before = _contents(db) if version else {}
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[version:]:
            for statement in step.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(STEPS)}")
        db.execute("UPDATE meta SET value = ? WHERE key = 'layout'", (len(STEPS),))
        after = _contents(db)
        if lost := [table for table, content in before.items() if after[table] != content]:
            raise sqlite3.IntegrityError(f"it would lose some of {' and '.join(lost)}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _written_down(db: sqlite3.Connection) -> int:
    """The version as stored a second time, so that one flipped bit cannot change both; 0 for an empty file."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return 0
    row = db.execute("SELECT value FROM meta WHERE key = 'layout'").fetchone()
    return int(row[0]) if row and type(row[0]) is int else -1


def _contents(db: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """How many rows each table has, and the sum of their checksums."""
    return {
        table: db.execute(f"SELECT count(*), sum(crc) FROM {table}").fetchone()
        for table in ("sessions", "records", "states")
    }


def check(db: sqlite3.Connection) -> None:
    """Raise if the tables differ from those that the steps make."""
    if schema_of(db) != _expected(STEPS):
        raise sqlite3.DatabaseError("its tables have changed")


@functools.cache
def _expected(steps: tuple[str, ...]) -> Schema:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(";".join(steps))
        return schema_of(db)
