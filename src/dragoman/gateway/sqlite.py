"""The engine of one machine: a file of SQLite, written by one thread, whatever waits in one transaction.

Reading has a connection and a thread of its own, so that a long history holds up nobody who writes.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from ..store.connecting import Level, all_or_nothing, configure, connect
from ..store.thread import DatabaseThread
from .engine import Conflict, EngineFailure, Entry, Fact, Fenced, Lease, Record

T = TypeVar("T")

FILE = "gateway.db"
PIECE = 256 * 1024  # bytes of a blob handed out at once
READ_BYTES = 1024 * 1024  # of records handed out at once
LAYOUT = 2
LAST = "\U0010ffff"  # comes after whatever a key goes on with
SCHEMA = """
CREATE TABLE records (
    session TEXT NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL, time REAL NOT NULL,
    origin TEXT NOT NULL, principal TEXT NOT NULL, client TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch INTEGER NOT NULL, expires REAL NOT NULL);
CREATE TABLE facts (
    kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
"""
BLOBS = "CREATE TABLE blobs (session TEXT, name TEXT, data BLOB NOT NULL, PRIMARY KEY (session, name));"
MAKING = {0: SCHEMA + BLOBS, 1: "DROP TABLE blobs;" + BLOBS}  # of no layout, and of one that never had a blob


class _File:
    """The gateway's database, as the thread that has it needs it."""

    def __init__(self, path: Path, level: Level) -> None:
        self.path, self._level = path, level
        self._open()

    def _open(self) -> None:
        try:
            self.db = connect(self.path)
            configure(self.db, self.path, self._level)
            (layout,) = self.db.execute("PRAGMA user_version").fetchone()
            if layout in MAKING:
                self.db.executescript(f"BEGIN IMMEDIATE; {MAKING[layout]} PRAGMA user_version = {LAYOUT}; COMMIT;")
        except (sqlite3.Error, OSError) as exc:
            raise EngineFailure(f"{self.path} cannot be used: {exc}") from exc
        if layout > LAYOUT:
            raise EngineFailure(f"{self.path} was written by a newer version of this program; use that one")

    def transaction(self) -> AbstractContextManager[None]:
        return all_or_nothing(self.db)

    def mend(self, why: Exception) -> bool:
        return False  # what is damaged here is for whoever runs the gateway to see to

    def reopen(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.close()
        self._open()

    def close(self) -> None:
        self.db.close()

    def leave_no_trace(self) -> None:
        """Give back what is no longer used, and empty the log, which still has it."""
        self.db.execute("PRAGMA incremental_vacuum").fetchall()
        (is_busy, _, _) = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise EngineFailure("the session is deleted, but somebody reads the log; delete it again to be sure")


class SqliteEngine:
    """Keeps everything in one directory; one process at a time has it."""

    def __init__(self, directory: str | os.PathLike[str], level: Level = "process") -> None:
        self.path = Path(directory) / FILE
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = functools.partial(_File, self.path, level)
        opened().close()  # what is wrong with it is wrong now
        self._writer = DatabaseThread(opened, "gateway log", _failure)
        self._reader = DatabaseThread(opened, "gateway history", _failure)  # never waits for who writes

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._reader.close)

    async def _write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Have something done; returns when it is committed, with all that waited beside it."""
        return await self._writer.run(lambda file: job(file.db), shares=True)

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reader.run(lambda file: job(file.db), shares=False)

    # Logs

    async def append(self, lease: Lease, entries: Sequence[Entry], after: int) -> None:
        def job(db: sqlite3.Connection) -> None:
            _must_hold(db, lease)
            now = time.time()
            rows = (
                (
                    lease.name,
                    after + place,
                    lease.epoch,
                    now,
                    entry.origin,
                    entry.principal,
                    entry.client,
                    entry.frame,
                )
                for place, entry in enumerate(entries, 1)
            )
            if after != _last(db, lease.name):
                raise Fenced(f"the log of {lease.name} has grown behind its writer's back")
            db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

        await self._write(job)
        for wake in tuple(self._listeners.get(lease.name, ())):
            wake()

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        def job(db: sqlite3.Connection) -> list[Record]:
            found: list[Record] = []
            size = 0
            rows = db.execute(
                "SELECT number, epoch, time, origin, frame, principal, client FROM records "
                "WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
                (session, after, limit),
            )
            for number, epoch, written, origin, frame, principal, client in rows:
                found.append(Record(number, epoch, written, Entry(origin, frame, principal, client)))
                size += len(frame)
                if size > READ_BYTES:
                    break
            return found

        return await self._read(job)

    async def last(self, session: str) -> int:
        return await self._read(lambda db: _last(db, session))

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        self._listeners.setdefault(session, set()).add(wake)

        def end() -> None:
            if listeners := self._listeners.get(session):
                listeners.discard(wake)
                if not listeners:
                    del self._listeners[session]

        return end

    async def forget(self, session: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM records WHERE session = ?", (session,))
            db.execute("DELETE FROM blobs WHERE session = ?", (session,))
            db.execute("DELETE FROM leases WHERE name = ?", (session,))

        await self._write(job)
        await self._writer.run(_File.leave_no_trace, shares=False)

    # Leases

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        def job(db: sqlite3.Connection) -> Lease | None:
            held = db.execute("SELECT owner, epoch, expires FROM leases WHERE name = ?", (name,)).fetchone()
            if held and held[0] != owner and held[2] > time.time():
                return None
            epoch = (held[1] if held else 0) + 1
            db.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", (name, owner, epoch, time.time() + seconds)
            )
            return Lease(name, owner, epoch)

        return await self._write(job)

    async def renew(self, lease: Lease, seconds: float) -> None:
        def job(db: sqlite3.Connection) -> None:
            _must_hold(db, lease)
            db.execute("UPDATE leases SET expires = ? WHERE name = ?", (time.time() + seconds, lease.name))

        await self._write(job)

    async def release(self, lease: Lease) -> None:
        def job(db: sqlite3.Connection) -> None:
            where = (lease.name, lease.owner, lease.epoch)
            db.execute("UPDATE leases SET expires = 0 WHERE name = ? AND owner = ? AND epoch = ?", where)

        await self._write(job)

    # Facts

    async def fact(self, kind: str, key: str) -> Fact | None:
        def job(db: sqlite3.Connection) -> Fact | None:
            row = db.execute("SELECT value, revision FROM facts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
            return Fact(*row) if row else None

        return await self._read(job)

    async def facts(self, kind: str, prefix: str = "") -> Mapping[str, Fact]:
        def job(db: sqlite3.Connection) -> dict[str, Fact]:
            rows = db.execute(
                "SELECT key, value, revision FROM facts WHERE kind = ? AND key >= ? AND key < ? ORDER BY key",
                (kind, prefix, prefix + LAST),
            )
            return {key: Fact(value, revision) for key, value, revision in rows}

        return await self._read(job)

    async def put_fact(self, kind: str, key: str, value: bytes, revision: int | None = None) -> int:
        def job(db: sqlite3.Connection) -> int:
            row = db.execute("SELECT revision FROM facts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
            found: int = row[0] if row else 0
            if revision is not None and revision != found:
                raise Conflict(f"{kind} {key} has changed since it was read")
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", (kind, key, value, found + 1))
            return found + 1

        return await self._write(job)

    async def drop_fact(self, kind: str, key: str) -> None:
        await self._write(
            lambda db: db.execute("DELETE FROM facts WHERE kind = ? AND key = ?", (kind, key)) and None
        )

    # Blobs

    async def put_blob(self, session: str, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        row = session, name, data
        await self._write(lambda db: db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", row) and None)
        return name

    async def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        at = 1
        while piece := await self._piece(session, name, at):
            yield piece
            at += len(piece)

    async def _piece(self, session: str, name: str, at: int) -> bytes:
        def job(db: sqlite3.Connection) -> bytes:
            row = db.execute(
                "SELECT substr(data, ?, ?) FROM blobs WHERE session = ? AND name = ?", (at, PIECE, session, name)
            ).fetchone()
            if row is None:
                raise EngineFailure(f"there is no blob {name}")
            return bytes(row[0])

        return await self._read(job)


def _failure(why: str) -> EngineFailure:
    return EngineFailure(f"the gateway's log cannot be written: {why}")


def _must_hold(db: sqlite3.Connection, lease: Lease) -> None:
    row = db.execute("SELECT owner, epoch FROM leases WHERE name = ?", (lease.name,)).fetchone()
    if row != (lease.owner, lease.epoch):
        raise Fenced(f"{lease.name} has another owner by now")


def _last(db: sqlite3.Connection, session: str) -> int:
    (last,) = db.execute("SELECT max(number) FROM records WHERE session = ?", (session,)).fetchone()
    return last or 0
