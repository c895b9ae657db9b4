"""The engine of one machine: a file of SQLite, written by one thread, all waiting records in one transaction.

Reading has a connection and a thread of its own, so that a long history holds up nobody who writes.
"""

import asyncio
import functools
import hashlib
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ...store.database.connecting import Level
from ...store.database.thread import DatabaseThread
from ...store.database.vacuum import empty_log, give_back
from ..metrics import Counter, Histogram, Metric
from . import forgetting
from .database import (
    FILE,
    INSERT_FACT,
    INSERT_LEASE,
    INSERT_RECORD,
    GatewayFile,
    ReadingFile,
    escaped,
    fact_checksum,
    fact_key,
    lease_checksum,
    record_checksum,
)
from .disk import UnreadableLog, check_room, figures, unreadable
from .engine import (
    Conflict,
    DamagedLog,
    EngineFailure,
    Fact,
    Fenced,
    Key,
    Lease,
    LogEntry,
    StoredRecord,
    Upkeep,
    check_fact,
)

T = TypeVar("T")

log = logging.getLogger("dragoman")

PIECE = 256 * 1024  # bytes of a blob handed out at once
KEYS = 500  # of facts, asked for in one statement
PAGE = 2000  # facts read at once
READ_BYTES = 1024 * 1024  # of records handed out at once
IDENTITY = "gateway", "owner"  # the fact that says who takes leases
LAST = "\U0010ffff"  # comes after whatever a key goes on with
TRIES, PAUSE = 40, 0.05  # to empty the write-ahead log behind a deletion, and seconds between two


class SqliteReader:
    """Reads what is kept in a directory, also beside the process that has it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / FILE
        # It never waits for who writes.
        self._reader = DatabaseThread(functools.partial(ReadingFile, self.path), "gateway history", unreadable)

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

    async def marked_for_deletion(self) -> Sequence[str]:
        return await self._read(lambda db: [id for (id,) in db.execute("SELECT session FROM doomed")])

    async def fact(self, kind: str, *key: str) -> Fact | None:
        name = _name(kind, key)

        def job(db: sqlite3.Connection) -> Fact | None:
            row = db.execute(
                "SELECT value, revision, crc FROM facts WHERE kind = ? AND key = ?", (kind, name)
            ).fetchone()
            if row and row[2] != fact_checksum(kind, name, *row[:2]):
                raise DamagedLog(f"the {kind} {name!r} is damaged")
            return Fact(*row[:2]) if row else None

        return await self._read(job)

    async def facts(self, kind: str, *prefix: str) -> AsyncIterator[tuple[Key, Fact]]:
        begin = behind = "".join(escaped(part) + "\n" for part in prefix)
        while rows := await self._facts_behind(kind, behind, begin + LAST):
            behind = rows[-1][0]
            for fact in _whole_facts(kind, rows).items():
                yield fact

    async def _facts_behind(self, kind: str, behind: str, end: str) -> list[tuple[str, bytes, int, int]]:
        def job(db: sqlite3.Connection) -> list[tuple[str, bytes, int, int]]:
            rows = db.execute(
                "SELECT key, value, revision, crc FROM facts WHERE kind = ? AND key > ? AND key < ?"
                " ORDER BY key LIMIT ?",
                (kind, behind, end, PAGE),
            )
            return rows.fetchall()

        return await self._read(job)

    async def facts_of(self, kind: str, keys: Sequence[Key]) -> Mapping[Key, Fact]:
        names = [_name(kind, key) for key in keys]

        def job(db: sqlite3.Connection) -> dict[Key, Fact]:
            found: dict[Key, Fact] = {}
            for start in range(0, len(names), KEYS):
                some = names[start : start + KEYS]
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
        self._commits = Histogram("How long commits of the log took, the sync to the disk included.")
        self._failures = Counter("Writes and reads of the log that failed.")
        opened = functools.partial(GatewayFile, self.path, level, self._commits.observe)
        opened().close()  # what is wrong with it is wrong now
        self._writer = DatabaseThread(opened, "gateway log", self._failed)

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        await super().close()

    def _failed(self, why: str) -> EngineFailure:
        self._failures.add()
        return EngineFailure(f"the gateway's log cannot be written: {why}")

    async def check(self) -> None:
        check_room(self.path)
        await self.put_fact("gateway", "checked", value=str(time.time()).encode())

    def metrics(self) -> Mapping[str, Metric]:
        return {
            "dragoman_log_commit_seconds": self._commits,
            "dragoman_log_failures_total": self._failures,
            **figures(self.path, lambda: self._writer.waiting),
        }

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

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        def job(file: GatewayFile) -> None:
            _must_hold(file.db, lease)
            _write_records(file, lease.name, records, after)

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
        await self.mark_for_deletion(session)
        while await self._write(lambda db: forgetting.go_on(db, session)):
            pass
        while await self._writer.run(lambda file: give_back(file.db), shares=False):
            pass
        for _ in range(TRIES):
            if await self._writer.run(lambda file: empty_log(file.db), shares=False):
                return
            await asyncio.sleep(PAUSE)
        raise EngineFailure("the session is deleted, but somebody reads the log; delete it again to be sure")

    async def mark_for_deletion(self, session: str) -> None:
        await self._write(lambda db: forgetting.begin(db, session))

    # Leases

    async def identity(self, *, is_new: bool = False) -> str:
        """One process at a time has the file, so the next one takes over what the last one held."""
        if is_new or await self.fact(*IDENTITY) is None:
            await self.put_fact(*IDENTITY, value=secrets.token_hex(8).encode())
        fact = await self.fact(*IDENTITY)
        assert fact
        return fact.value.decode()

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        def job(db: sqlite3.Connection) -> Lease | None:
            held = db.execute("SELECT owner, epoch, expires FROM leases WHERE name = ?", (name,)).fetchone()
            if held and held[0] != owner and held[2] > time.time():
                return None
            lease = Lease(name, owner, max(held[1] if held else 0, _latest_epoch(db, name)) + 1)
            _put_lease(db, lease, last_number(db, name), time.time() + seconds)
            return lease

        return await self._write(job)

    async def keep_up(self, held: Sequence[Upkeep], seconds: float) -> Collection[Lease]:
        def job(db: sqlite3.Connection) -> Collection[Lease]:
            lost = {one.lease for one in held if not _is_held(db, one.lease)}
            kept = [one for one in held if one.lease not in lost]
            until = time.time() + seconds
            db.executemany(
                "UPDATE leases SET expires = ? WHERE name = ?", [(until, one.lease.name) for one in kept]
            )
            for one in kept:
                for kind, value in one.facts.items():
                    _put_fact(db, kind, _name(kind, (one.lease.name,), value), value)
            return lost

        return await self._write(job)

    async def release(self, lease: Lease) -> None:
        def job(db: sqlite3.Connection) -> None:
            where = (lease.name, lease.owner, lease.epoch)
            db.execute("UPDATE leases SET expires = 0 WHERE name = ? AND owner = ? AND epoch = ?", where)

        await self._write(job)

    # Facts

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        name = _name(kind, key, value)
        return await self._write(lambda db: _put_fact(db, kind, name, value, revision))

    async def drop_fact(self, kind: str, *key: str) -> None:
        name = _name(kind, key)
        await self._write(
            lambda db: db.execute("DELETE FROM facts WHERE kind = ? AND key = ?", (kind, name)) and None
        )

    # Blobs

    async def put_blob(self, lease: Lease, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()

        def job(db: sqlite3.Connection) -> None:
            _must_hold(db, lease)
            db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", (lease.name, name, data))

        await self._write(job)
        return name


def _name(kind: str, key: Key, value: bytes = b"") -> str:
    """The name of a fact in the database."""
    check_fact(kind, key, value)
    return "\n".join(map(escaped, key))


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
        records = _unwritten(file.db, session, records, after)
    if not records:
        return
    rows = [
        (session, one.number, one.epoch, one.time, said.origin, said.principal, said.client, said.frame)
        for one in records
        for said in (one.entry,)
    ]
    file.db.executemany(INSERT_RECORD, [(*row, record_checksum(*row)) for row in rows])
    (file.written,) = file.db.execute("SELECT last_insert_rowid()").fetchone()
    last = records[-1].number
    owner, epoch = file.db.execute("SELECT owner, epoch FROM leases WHERE name = ?", (session,)).fetchone()
    checksum = lease_checksum(session, owner, epoch, last)
    file.db.execute("UPDATE leases SET last = ?, crc = ? WHERE name = ?", (last, checksum, session))


def _unwritten(
    db: sqlite3.Connection, session: str, records: Sequence[StoredRecord], after: int
) -> Sequence[StoredRecord]:
    """Those of some records that a try whose end nobody heard of did not write."""
    rows = db.execute(
        "SELECT epoch, origin, principal, client, frame FROM records WHERE session = ? AND number > ?"
        " ORDER BY number LIMIT ?",
        (session, after, len(records) + 1),
    )
    there = [
        (epoch, LogEntry(origin, frame, principal, client)) for epoch, origin, principal, client, frame in rows
    ]
    if not there or there != [(one.epoch, one.entry) for one in records[: len(there)]]:
        raise Fenced(f"the log of {session} has grown behind its writer's back")
    return records[len(there) :]


def _whole_facts(kind: str, rows: Iterable[tuple[str, bytes, int, int]]) -> dict[Key, Fact]:
    """The facts of rows that are what was put."""
    found: dict[Key, Fact] = {}
    for key, value, revision, crc in rows:
        if crc == fact_checksum(kind, key, value, revision):
            found[fact_key(key)] = Fact(value, revision)
        else:
            log.error("the %s %r is damaged; see `dragoman gateway verify`", kind, key)
    return found


def _put_fact(db: sqlite3.Connection, kind: str, key: str, value: bytes, revision: int | None = None) -> int:
    row = db.execute("SELECT revision FROM facts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    found: int = row[0] if row else 0
    if revision is not None and revision != found:
        raise Conflict(f"{kind} {key} has changed since it was read")
    fact = (kind, key, value, found + 1)
    db.execute(INSERT_FACT, (*fact, fact_checksum(*fact)))
    return found + 1


def _is_held(db: sqlite3.Connection, lease: Lease) -> bool:
    row = db.execute("SELECT owner, epoch FROM leases WHERE name = ?", (lease.name,)).fetchone()
    return bool(row == (lease.owner, lease.epoch))


def _must_hold(db: sqlite3.Connection, lease: Lease) -> None:
    if not _is_held(db, lease):
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
