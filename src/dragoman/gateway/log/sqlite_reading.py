"""Reads the log of one machine from its file, with a connection and a thread of its own.

So a long history does not delay writers, and the file can be read beside the process that writes it.
"""

import asyncio
import functools
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ...store.database.thread import DatabaseThread
from .database import FILE, ReadingFile, escaped, fact_checksum, fact_key, lease_checksum, record_checksum
from .disk import UnreadableLog, unreadable
from .engine import DamagedLog, Fact, Key, LogEntry, StoredRecord, check_fact

T = TypeVar("T")

log = logging.getLogger("dragoman")

PIECE = 256 * 1024  # bytes of a blob read at once
KEYS = 500  # keys of facts in one statement
PAGE = 2000  # facts read at once
READ_BYTES = 1024 * 1024  # bytes of records returned at once
LAST = "\U0010ffff"  # sorts after every continuation of a key


class SqliteReader:
    """Reads the data in a directory, also beside the process that writes it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / FILE
        # Reading never waits for writers.
        self._reader = DatabaseThread(functools.partial(ReadingFile, self.path), "gateway history", unreadable)

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.close)

    async def _mend(self) -> bool:
        """Rebuild the database if it is damaged; false if it is not, or if this process only reads."""
        return False

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        def fresh(file: ReadingFile) -> T:
            with file.snapshot() as db:
                return job(db)

        try:
            return await self._reader.run(fresh, shares=False)
        except UnreadableLog:
            await self._mend()  # or another process has done so meanwhile
            return await self._reader.run(fresh, shares=False)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return await self._read(lambda db: read_records(db, session, after, limit))

    async def last(self, session: str) -> int:
        return await self._read(lambda db: last_number(db, session))

    async def marked_for_deletion(self) -> Sequence[str]:
        return await self._read(lambda db: [id for (id,) in db.execute("SELECT session FROM doomed")])

    async def fact(self, kind: str, *key: str) -> Fact | None:
        name = name_of(kind, key)

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
        names = [name_of(kind, key) for key in keys]

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


def name_of(kind: str, key: Key, value: bytes = b"") -> str:
    """The name of a fact in the database."""
    check_fact(kind, key, value)
    return "\n".join(map(escaped, key))


def read_records(db: sqlite3.Connection, session: str, after: int, limit: int) -> list[StoredRecord]:
    """Some records after a number, with markers in place of damaged or missing ones."""
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


def _whole_facts(kind: str, rows: Iterable[tuple[str, bytes, int, int]]) -> dict[Key, Fact]:
    """The facts in undamaged rows."""
    found: dict[Key, Fact] = {}
    for key, value, revision, crc in rows:
        if crc == fact_checksum(kind, key, value, revision):
            found[fact_key(key)] = Fact(value, revision)
        else:
            log.error("the %s %r is damaged; see `dragoman gateway verify`", kind, key)
    return found


def last_number(db: sqlite3.Connection, session: str) -> int:
    """The number of a session's last record, from the records and from its lease."""
    (there,) = db.execute("SELECT max(number) FROM records WHERE session = ?", (session,)).fetchone()
    row = db.execute("SELECT name, owner, epoch, last, crc FROM leases WHERE name = ?", (session,)).fetchone()
    said = row[3] if row and row[4] == lease_checksum(*row[:4]) else 0
    return max(there if type(there) is int else 0, said)
