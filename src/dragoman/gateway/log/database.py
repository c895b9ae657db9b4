"""The gateway's database file: its tables, their checksums, and rebuilding after damage.

Every record and every fact has a checksum; the name of a blob is its hash.  `store.database.guarded` does the rest.
"""

import contextlib
import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from ...store.database.connecting import Level, connect_reader
from ...store.database.guarded import GuardedFile, Make, schema_of
from ...store.database.tip import Tip
from ...store.repair.salvage import Row, salvaged_rows
from .engine import EngineFailure

log = logging.getLogger("dragoman")

FILE, TIP = "gateway.db", "gateway.tip"
LAYOUT = 3
# Bytes of a file that is checked completely when it is opened, because a damaged index hides rows.  For a larger
# one that takes too long; `dragoman gateway verify` checks it, and so does the discovery of any damage.
LOOKED_THROUGH = 16 * 1024 * 1024
TABLES = """
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL,
    time REAL NOT NULL, origin TEXT NOT NULL, principal TEXT NOT NULL, client TEXT NOT NULL, frame BLOB NOT NULL,
    crc INTEGER NOT NULL
);
CREATE UNIQUE INDEX records_in_order ON records (session, number);
CREATE TABLE leases (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch INTEGER NOT NULL, expires REAL NOT NULL,
    last INTEGER NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE facts (
    kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE TABLE blobs (session TEXT, name TEXT, data BLOB NOT NULL, PRIMARY KEY (session, name));
CREATE TABLE doomed (session TEXT PRIMARY KEY);
"""
INSERT_RECORD = (
    "INSERT INTO records (session, number, epoch, time, origin, principal, client, frame, crc)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_FACT = "INSERT OR REPLACE INTO facts (kind, key, value, revision, crc) VALUES (?, ?, ?, ?, ?)"
INSERT_LEASE = "INSERT OR REPLACE INTO leases (name, owner, epoch, last, crc, expires) VALUES (?, ?, ?, ?, ?, ?)"
RECORD_COLUMNS = 10
_NEWER_FACT = (
    "INSERT INTO facts (kind, key, value, revision, crc) VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE"
    " SET value = excluded.value, revision = excluded.revision, crc = excluded.crc"
    " WHERE excluded.revision >= revision"
)
_NEWER_LEASE = (
    "INSERT INTO leases (name, owner, epoch, last, crc, expires) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name)"
    " DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch, last = excluded.last, crc = excluded.crc"
    " WHERE excluded.last >= last"
)
_OLDER = ("records", "leases", "facts", "blobs")


def record_checksum(*row: object) -> int:
    """The checksum of a record: of its columns in the order of INSERT_RECORD."""
    *about, frame = row
    return crc32(frame if isinstance(frame, bytes) else b"", crc32(repr(about).encode(errors="replace")))


def fact_checksum(kind: object, key: object, value: object, revision: object) -> int:
    return crc32(
        value if isinstance(value, bytes) else b"", crc32(repr((kind, key, revision)).encode(errors="replace"))
    )


def escaped(part: str) -> str:
    """A part of a fact's key in the database's form, in which a line break ends it."""
    return "\0" + part.encode().hex() if "\n" in part or part.startswith("\0") else part


def fact_key(name: str) -> tuple[str, ...]:
    """The parts of a fact's key."""
    parts = name.split("\n")
    return tuple(bytes.fromhex(part[1:]).decode() if part.startswith("\0") else part for part in parts)


def lease_checksum(name: object, owner: object, epoch: object, last: object) -> int:
    return crc32(repr((name, owner, epoch, last)).encode(errors="replace"))


class GatewayFile(GuardedFile):
    """The database of the writing thread."""

    def __init__(self, path: Path, level: Level, committed: Callable[[float], None] = lambda _: None) -> None:
        super().__init__(path, level)
        self._committed = committed  # called with the duration of each commit
        self.written: int | None = None  # the last written record
        self._files = contextlib.ExitStack()
        try:
            self._make_room(path.with_name(TIP))
            self._tip = self._files.enter_context(contextlib.closing(Tip(path.with_name(TIP))))
            self._connect()
        except BaseException as exc:
            self._files.close()
            if isinstance(exc, sqlite3.Error | OSError):
                raise EngineFailure(f"{path} cannot be used: {exc}") from exc
            raise

    def _prepare(self) -> None:
        (layout,) = self.db.execute("PRAGMA user_version").fetchone()
        if layout != LAYOUT and schema_of(self.db) == _expected():
            raise sqlite3.DatabaseError("its header is damaged")
        if layout > LAYOUT:
            raise EngineFailure(
                f"{self.file} has layout {layout}, and this version knows layouts up to {LAYOUT}: use the newer"
                " version, or restore a backup from before the upgrade"
            )
        if layout < LAYOUT:
            _bring_up_to_date(self.db, layout)
        if schema_of(self.db) != _expected():
            raise sqlite3.DatabaseError("its tables are not what they were")
        self._tip.check(self.db)
        if self.file.stat().st_size <= LOOKED_THROUGH and (found := self._damage()):
            raise sqlite3.DatabaseError(str(found))

    def _saved(self) -> Make:
        return lambda db: _fill(db, self.file, self._tip.known())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        is_part, before = self.db.in_transaction, self.written
        try:
            with super().transaction():
                yield
                began = time.perf_counter()
        except BaseException:
            self.written = before
            raise
        if not is_part:
            self._committed(time.perf_counter() - began)
        if self.written is not None and not is_part:
            self._tip.note(self.written)
            self.written = None

    def close(self) -> None:
        with self._files:
            self._hang_up()


class ReadingFile:
    """The database of the reading thread; damage is left to the writing one."""

    def __init__(self, path: Path) -> None:
        self.file = path
        self._open()

    def _open(self) -> None:
        self.db = connect_reader(self.file)
        self._inode = self.file.stat().st_ino

    def reopen(self) -> None:
        self.close()
        self._open()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A consistent view of the current file, which may have been rebuilt since it was opened."""
        if self.file.stat().st_ino != self._inode:
            self.reopen()
        self.db.execute("BEGIN")
        try:
            yield self.db
        finally:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")

    def transaction(self) -> "contextlib.AbstractContextManager[None]":
        return contextlib.nullcontext()

    def mend(self, why: Exception) -> bool:
        return False

    def close(self) -> None:
        self.db.close()


# Layouts


def _bring_up_to_date(db: sqlite3.Connection, layout: int) -> None:
    """Create the tables, or convert those of an older layout, in one transaction."""
    db.create_function("record_checksum", -1, record_checksum, deterministic=True)
    db.create_function("fact_checksum", 4, fact_checksum, deterministic=True)
    db.create_function("lease_checksum", 4, lease_checksum, deterministic=True)
    steps = [TABLES]
    if layout:
        steps = [f"ALTER TABLE {table} RENAME TO old_{table};" for table in _OLDER] + steps
        columns = "session, number, epoch, time, origin, principal, client, frame"
        steps += [
            f"INSERT INTO records ({columns}, crc) SELECT {columns}, record_checksum({columns}) FROM old_records"
            " ORDER BY session, number;",
            "INSERT INTO facts SELECT kind, key, value, revision, fact_checksum(kind, key, value, revision)"
            " FROM old_facts;",
            "ALTER TABLE old_leases ADD COLUMN last INTEGER;",
            "UPDATE old_leases SET last = ifnull((SELECT max(number) FROM records WHERE session = name), 0);",
            "INSERT INTO leases SELECT name, owner, epoch, expires, last, lease_checksum(name, owner, epoch, last)"
            " FROM old_leases;",
            "INSERT INTO blobs SELECT session, name, data FROM old_blobs;" if layout > 1 else "",
            *(f"DROP TABLE old_{table};" for table in _OLDER),
        ]
    db.executescript(f"BEGIN IMMEDIATE; {''.join(steps)} PRAGMA user_version = {LAYOUT}; COMMIT;")


def _expected() -> list[tuple[str, str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(TABLES)
        return schema_of(db)


# Saving the intact rows of a damaged file


def _fill(db: sqlite3.Connection, file: Path, tip: int) -> None:
    """Fill a new database with the intact rows of a damaged one, row by row, so that any size fits into memory.

    `tip` is the id of the last committed record.
    """
    _bring_up_to_date(db, 0)
    db.execute("BEGIN")
    latest = 0
    for id, row in salvaged_rows(file):
        try:
            if (kept := _whole(row)) is not None:
                db.execute(*kept)
                latest = max(latest, id if len(row) == RECORD_COLUMNS else 0)
        except Exception as exc:  # an error in one row must not stop the others
            log.debug("a row was not saved: %r", exc)
    (records,) = db.execute("SELECT count(*) FROM records").fetchone()
    log.error("%s: %d records are whole", file, records)
    if latest < tip:
        log.error("the gateway's log lost its latest %d records; the ends of sessions may be missing", tip - latest)
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
    reached = max(tip, latest, db.execute("SELECT ifnull(max(id), 0) FROM records").fetchone()[0])
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('records', ?)", (reached,))
    db.execute("COMMIT")


def _whole(row: Row) -> tuple[str, tuple[object, ...]] | None:
    """The statement that keeps an intact row of ours; the newer of two versions stays."""
    match row:
        case [_, str() as session, int() as number, int() as epoch, int() | float() as time, *about, int() as crc]:
            record = (session, number, epoch, float(time), *about)
            if len(row) == RECORD_COLUMNS and crc == record_checksum(*record):
                return INSERT_RECORD.replace("INSERT", "INSERT OR REPLACE"), (*record, crc)
        case [str() as kind, str() as key, bytes() as value, int() as revision, int() as crc]:
            if crc == fact_checksum(kind, key, value, revision):
                return _NEWER_FACT, (kind, key, value, revision, crc)
        case [str() as name, str() as owner, int() as epoch, int() | float(), int() as last, int() as crc]:
            if crc == lease_checksum(name, owner, epoch, last):
                return _NEWER_LEASE, (name, owner, epoch, last, crc, 0.0)
        case [str() as session, str() as name, bytes() as data]:
            if hashlib.sha256(data).hexdigest() == name:
                return "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", (session, name, data)
        case [str() as session]:
            return "INSERT OR IGNORE INTO doomed VALUES (?)", (session,)
    return None
