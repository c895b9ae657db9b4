"""The engine of one machine: an SQLite file with one writing thread and one transaction for all waiting records."""

import asyncio
import functools
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from ...store.database.connecting import Level
from ...store.database.thread import DatabaseThread
from ...store.database.vacuum import empty_log, give_back
from ..metrics import Counter, Histogram, Metric
from . import forgetting
from .database import (
    INSERT_FACT,
    INSERT_LEASE,
    INSERT_RECORD,
    GatewayFile,
    fact_checksum,
    lease_checksum,
    record_checksum,
)
from .disk import check_room, figures
from .engine import (
    CallHandler,
    Conflict,
    EngineFailure,
    Fenced,
    Lease,
    LogEntry,
    StoredRecord,
    Upkeep,
    answered,
    check_call,
    nobody_answers,
)
from .sqlite_reading import SqliteReader, last_number, name_of

T = TypeVar("T")

IDENTITY = "gateway", "owner"  # the fact with the owner of leases
LONGEST_LEASE = 60.0  # seconds that a gateway takes one for, at most
TRIES, PAUSE = 40, 0.05  # attempts to empty the write-ahead log after a deletion, and seconds between two


class SqliteEngine(SqliteReader):
    """Stores everything in one directory, which one process at a time uses."""

    def __init__(self, directory: str | os.PathLike[str], level: Level = "process") -> None:
        super().__init__(directory)
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self._answers: dict[str, CallHandler] = {}  # by owner: all that hold leases here are in this process
        self._looked: set[str] = set()  # damaged sessions that have caused a full check already
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._commits = Histogram("How long commits of the log took, the sync to the disk included.")
        self._failures = Counter("Writes and reads of the log that failed.")
        opened = functools.partial(GatewayFile, self.path, level, self._commits.observe)
        opened().close()  # report a fault now
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
        """Run a write; returns when it is committed, together with other waiting writes."""
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
            asyncio.get_running_loop().call_soon(wake)

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        def job(file: GatewayFile) -> None:
            _must_hold(file.db, lease)
            _write_records(file, lease.name, records, after)

        await self._writer.run(job, shares=True)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        found = await super().read(session, after, limit)
        if session not in self._looked and not all(record.is_whole for record in found):
            self._looked.add(session)  # only once, because lost data stays lost
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

    async def answer(self, owner: str, answer: CallHandler) -> Callable[[], Awaitable[None]]:
        self._answers[owner] = answer

        async def end() -> None:
            self._answers.pop(owner, None)

        return end

    async def call(self, session: str, request: bytes) -> bytes:
        check_call(request)
        owner = await self._read(lambda db: _holder(db, session))
        if (answer := self._answers.get(owner)) is None:
            raise nobody_answers(session)
        return await answered(answer, session, request)

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
        """One process at a time has the file, so the next one takes over the leases of the last one."""
        if is_new or await self.fact(*IDENTITY) is None:
            await self.put_fact(*IDENTITY, value=secrets.token_hex(8).encode())
        fact = await self.fact(*IDENTITY)
        assert fact
        return fact.value.decode()

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        def job(db: sqlite3.Connection) -> Lease | None:
            held = db.execute("SELECT owner, epoch, expires FROM leases WHERE name = ?", (name,)).fetchone()
            now = time.time()
            if held and held[0] != owner and now < held[2] <= now + max(seconds, LONGEST_LEASE):
                return None  # one that ends later than any does was given before the clock went back
            lease = Lease(name, owner, max(held[1] if held else 0, _latest_epoch(db, name)) + 1)
            _put_lease(db, lease, last_number(db, name), now + seconds)
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
                    _put_fact(db, kind, name_of(kind, (one.lease.name,), value), value)
            return lost

        return await self._write(job)

    async def release(self, lease: Lease) -> None:
        def job(db: sqlite3.Connection) -> None:
            where = (lease.name, lease.owner, lease.epoch)
            db.execute("UPDATE leases SET expires = 0 WHERE name = ? AND owner = ? AND epoch = ?", where)

        await self._write(job)

    # Facts

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        name = name_of(kind, key, value)
        return await self._write(lambda db: _put_fact(db, kind, name, value, revision))

    async def drop_fact(self, kind: str, *key: str) -> None:
        name = name_of(kind, key)
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
    """Those of some records that an unacknowledged attempt has not written."""
    rows = db.execute(
        "SELECT epoch, origin, principal, client, frame FROM records WHERE session = ? AND number > ?"
        " ORDER BY number LIMIT ?",
        (session, after, len(records) + 1),
    )
    there = [
        (epoch, LogEntry(origin, frame, principal, client)) for epoch, origin, principal, client, frame in rows
    ]
    if not there or there != [(one.epoch, one.entry) for one in records[: len(there)]]:
        raise Fenced(f"the log of {session} was written by another process")
    return records[len(there) :]


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


def _holder(db: sqlite3.Connection, session: str) -> str:
    """The holder of a session's lease; empty if there is none."""
    row = db.execute("SELECT owner, expires FROM leases WHERE name = ?", (session,)).fetchone()
    return str(row[0]) if row and row[1] > time.time() else ""


def _must_hold(db: sqlite3.Connection, lease: Lease) -> None:
    if not _is_held(db, lease):
        raise Fenced(f"{lease.name} has another owner by now")


def _put_lease(db: sqlite3.Connection, lease: Lease, last: int, expires: float) -> None:
    row = (lease.name, lease.owner, lease.epoch, last)
    db.execute(INSERT_LEASE, (*row, lease_checksum(*row), expires))


def _latest_epoch(db: sqlite3.Connection, session: str) -> int:
    """The newest epoch of a session's records, in case its lease is lost."""
    row = db.execute(
        "SELECT epoch FROM records WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return row[0] if row and type(row[0]) is int else 0
