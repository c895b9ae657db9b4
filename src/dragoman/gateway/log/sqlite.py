"""The engine of one machine: a file of SQLite, written by one thread, whatever waits in one transaction.

Reading has a connection and a thread of its own, so that a long history holds up nobody who writes.
"""

import asyncio
import functools
import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ...store.database.connecting import Level
from ...store.database.thread import DatabaseThread
from ...store.database.vacuum import empty_log, give_back
from . import forgetting
from .database import (
    FILE,
    INSERT_FACT,
    INSERT_LEASE,
    INSERT_RECORD,
    GatewayFile,
    ReadingFile,
    fact_checksum,
    lease_checksum,
    record_checksum,
)
from .engine import Conflict, DamagedLog, EngineFailure, Fact, Fenced, Lease, LogEntry, StoredRecord

T = TypeVar("T")

log = logging.getLogger("dragoman")

PIECE = 256 * 1024  # bytes of a blob handed out at once
KEYS = 500  # of facts, asked for in one statement
READ_BYTES = 1024 * 1024  # of records handed out at once
LAST = "\U0010ffff"  # comes after whatever a key goes on with
TRIES, PAUSE = 40, 0.05  # to empty the write-ahead log behind a deletion, and seconds between two


class UnreadableLog(EngineFailure):
    """The log cannot be read; whether it is damaged, a look at all of it tells."""


class SqliteReader:
    """Reads what is kept in a directory, also beside the process that has it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / FILE
        # It never waits for who writes.
        self._reader = DatabaseThread(functools.partial(ReadingFile, self.path), "gateway history", _unreadable)

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.close)

    async def _mend(self) -> bool:
        """Have the database made anew if it is damaged; false when that is not so, or not ours to do."""
        return False

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        def fresh(file: ReadingFile) -> T:
            with file.snapshot() as db:
                return job(db)

        try:
            return await self._reader.run(fresh, shares=False)
        except UnreadableLog:
            await self._mend()  # or somebody else has done so meanwhile
            return await self._reader.run(fresh, shares=False)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return await self._read(lambda db: read_records(db, session, after, limit))

    async def last(self, session: str) -> int:
        return await self._read(lambda db: last_number(db, session))

    async def doomed(self) -> Sequence[str]:
        return await self._read(lambda db: [id for (id,) in db.execute("SELECT session FROM doomed")])

    async def fact(self, kind: str, key: str) -> Fact | None:
        def job(db: sqlite3.Connection) -> Fact | None:
            row = db.execute(
                "SELECT value, revision, crc FROM facts WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
            if row and row[2] != fact_checksum(kind, key, *row[:2]):
                raise DamagedLog(f"the {kind} {key!r} is damaged")
            return Fact(*row[:2]) if row else None

        return await self._read(job)

    async def facts(
        self, kind: str, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Mapping[str, Fact]:
        def job(db: sqlite3.Connection) -> dict[str, Fact]:
            rows = db.execute(
                "SELECT key, value, revision, crc FROM facts WHERE kind = ? AND key >= ? AND key < ? AND key > ?"
                " ORDER BY key LIMIT ?",
                (kind, prefix, prefix + LAST, after, -1 if limit is None else limit),
            )
            return _whole_facts(kind, rows)

        return await self._read(job)

    async def facts_of(self, kind: str, keys: Sequence[str]) -> Mapping[str, Fact]:
        def job(db: sqlite3.Connection) -> dict[str, Fact]:
            found: dict[str, Fact] = {}
            for start in range(0, len(keys), KEYS):
                some = keys[start : start + KEYS]
                marks = ", ".join("?" * len(some))
                rows = db.execute(
                    f"SELECT key, value, revision, crc FROM facts WHERE kind = ? AND key IN ({marks})",
                    (kind, *some),
                )
                found |= _whole_facts(kind, rows)
            return found

        return await self._read(job)

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
                raise DamagedLog(f"there is no blob {name}")
            return bytes(row[0])

        return await self._read(job)


class SqliteEngine(SqliteReader):
    """Keeps everything in one directory; one process at a time has it."""

    def __init__(self, directory: str | os.PathLike[str], level: Level = "process") -> None:
        super().__init__(directory)
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self._looked: set[str] = set()  # sessions with damage for which all of the database was looked at
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = functools.partial(GatewayFile, self.path, level)
        opened().close()  # what is wrong with it is wrong now
        self._writer = DatabaseThread(opened, "gateway log", _failure)

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        await super().close()

    async def _write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Have something done; returns when it is committed, with all that waited beside it."""
        return await self._writer.run(lambda file: job(file.db), shares=True)

    async def _mend(self) -> bool:
        return await self._writer.run(GatewayFile.mend, shares=False)

    # Logs

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        now = time.time()
        records = [StoredRecord(after + place, lease.epoch, now, entry) for place, entry in enumerate(entries, 1)]

        def job(file: GatewayFile) -> None:
            _must_hold(file.db, lease)
            _write_records(file, lease.name, records, after)

        await self._writer.run(job, shares=True)
        for wake in tuple(self._listeners.get(lease.name, ())):
            wake()

    async def adopt(self, session: str, records: Sequence[StoredRecord], after: int) -> None:
        def job(file: GatewayFile) -> None:
            if not file.db.execute("SELECT 1 FROM leases WHERE name = ?", (session,)).fetchone():
                _put_lease(file.db, Lease(session, "", 0), 0, 0.0)
            _write_records(file, session, records, after)

        await self._writer.run(job, shares=True)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        found = await super().read(session, after, limit)
        if session not in self._looked and not all(record.is_whole for record in found):
            self._looked.add(session)  # once: what is lost for good is lost
            if await self._mend():
                found = await super().read(session, after, limit)
        return found

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        self._listeners.setdefault(session, set()).add(wake)

        def end() -> None:
            if listeners := self._listeners.get(session):
                listeners.discard(wake)
                if not listeners:
                    del self._listeners[session]

        return end

    async def forget(self, session: str) -> None:
        await self.doom(session)
        while await self._write(lambda db: forgetting.go_on(db, session)):
            pass
        while await self._writer.run(lambda file: give_back(file.db), shares=False):
            pass
        for _ in range(TRIES):
            if await self._writer.run(lambda file: empty_log(file.db), shares=False):
                return
            await asyncio.sleep(PAUSE)
        raise EngineFailure("the session is deleted, but somebody reads the log; delete it again to be sure")

    async def doom(self, session: str) -> None:
        await self._write(lambda db: forgetting.begin(db, session))

    # Leases

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        def job(db: sqlite3.Connection) -> Lease | None:
            held = db.execute("SELECT owner, epoch, expires FROM leases WHERE name = ?", (name,)).fetchone()
            if held and held[0] != owner and held[2] > time.time():
                return None
            lease = Lease(name, owner, max(held[1] if held else 0, _latest_epoch(db, name)) + 1)
            _put_lease(db, lease, last_number(db, name), time.time() + seconds)
            return lease

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

    async def put_fact(self, kind: str, key: str, value: bytes, revision: int | None = None) -> int:
        def job(db: sqlite3.Connection) -> int:
            row = db.execute("SELECT revision FROM facts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
            found: int = row[0] if row else 0
            if revision is not None and revision != found:
                raise Conflict(f"{kind} {key} has changed since it was read")
            fact = (kind, key, value, found + 1)
            db.execute(INSERT_FACT, (*fact, fact_checksum(*fact)))
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


def read_records(db: sqlite3.Connection, session: str, after: int, limit: int) -> list[StoredRecord]:
    """Some records after a number; in the place of what is damaged or missing, one that says so."""
    found: list[StoredRecord] = []
    size, expected = 0, after + 1
    rows = db.execute(
        "SELECT number, epoch, time, origin, principal, client, frame, crc FROM records "
        "WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
        (session, after, limit),
    )
    for number, epoch, written, origin, principal, client, frame, crc in rows:
        found += map(_missing, range(expected, number))
        expected = number + 1
        if crc == record_checksum(session, number, epoch, written, origin, principal, client, frame):
            found.append(StoredRecord(number, epoch, written, LogEntry(origin, frame, principal, client)))
            size += len(frame)
        else:
            found.append(_missing(number))
        if size > READ_BYTES or len(found) >= limit:
            return found[:limit]
    found += map(_missing, range(expected, last_number(db, session) + 1))
    return found[:limit]


def _missing(number: int) -> StoredRecord:
    return StoredRecord(number, 0, 0.0, LogEntry("gateway", b""), is_whole=False)


def _write_records(file: GatewayFile, session: str, records: Sequence[StoredRecord], after: int) -> None:
    if after != last_number(file.db, session):
        raise Fenced(f"the log of {session} has grown behind its writer's back")
    rows = [
        (session, one.number, one.epoch, one.time, said.origin, said.principal, said.client, said.frame)
        for one in records
        for said in (one.entry,)
    ]
    file.db.executemany(INSERT_RECORD, [(*row, record_checksum(*row)) for row in rows])
    (file.written,) = file.db.execute("SELECT last_insert_rowid()").fetchone()
    last = after + len(records)
    owner, epoch = file.db.execute("SELECT owner, epoch FROM leases WHERE name = ?", (session,)).fetchone()
    checksum = lease_checksum(session, owner, epoch, last)
    file.db.execute("UPDATE leases SET last = ?, crc = ? WHERE name = ?", (last, checksum, session))


def _unreadable(why: str) -> UnreadableLog:
    return UnreadableLog(f"the gateway's log cannot be read: {why}")


def _failure(why: str) -> EngineFailure:
    return EngineFailure(f"the gateway's log cannot be written: {why}")


def _whole_facts(kind: str, rows: Iterable[tuple[str, bytes, int, int]]) -> dict[str, Fact]:
    """The facts of rows that are what was put."""
    found: dict[str, Fact] = {}
    for key, value, revision, crc in rows:
        if crc == fact_checksum(kind, key, value, revision):
            found[key] = Fact(value, revision)
        else:
            log.error("the %s %r is damaged; see `dragoman gateway verify`", kind, key)
    return found


def _must_hold(db: sqlite3.Connection, lease: Lease) -> None:
    row = db.execute("SELECT owner, epoch FROM leases WHERE name = ?", (lease.name,)).fetchone()
    if row != (lease.owner, lease.epoch):
        raise Fenced(f"{lease.name} has another owner by now")


def last_number(db: sqlite3.Connection, session: str) -> int:
    """The number of a session's last record: of those that are there, and as its lease says."""
    (there,) = db.execute("SELECT max(number) FROM records WHERE session = ?", (session,)).fetchone()
    row = db.execute("SELECT name, owner, epoch, last, crc FROM leases WHERE name = ?", (session,)).fetchone()
    said = row[3] if row and row[4] == lease_checksum(*row[:4]) else 0
    return max(there if type(there) is int else 0, said)


def _put_lease(db: sqlite3.Connection, lease: Lease, last: int, expires: float) -> None:
    row = (lease.name, lease.owner, lease.epoch, last)
    db.execute(INSERT_LEASE, (*row, lease_checksum(*row), expires))


def _latest_epoch(db: sqlite3.Connection, session: str) -> int:
    """The newest epoch that ever wrote to a session, should its lease be lost."""
    row = db.execute(
        "SELECT epoch FROM records WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return row[0] if row and type(row[0]) is int else 0
