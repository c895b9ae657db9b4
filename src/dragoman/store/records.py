"""Records: how lines are stored in the database, and read back so that every gap is noticed.

A record is a run of lines of one session with a checksum over all of it.  Lines are numbered from 1 without a gap
and the head knows how many there are: damaged, moved and missing records leave a gap that can be named.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct

from .lines import Head, now

if TYPE_CHECKING:
    import sqlite3

RECORD_SIZE = 32 * 1024  # bytes after which the next record begins; the most that one damaged spot can destroy
SLICE = 32  # records read at a time


read_head = msgspec.json.Decoder(Head).decode


class Damage(Struct, frozen=True):
    """Lost lines, `first` to `last`, and the records that held them as far as those are known."""

    first: int
    last: int
    records: Sequence[int] = ()

    def __str__(self) -> str:
        where = ", ".join(map(str, self.records))
        lines = f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"
        return f"{lines} (record {where} is damaged)" if where else f"{lines} (missing)"


def checksum(session: str, first: int, count: int, body: bytes) -> int:
    return crc32(body, crc32(b"%s %d %d" % (session.encode(errors="replace"), first, count)))


def head_checksum(id: str, head: bytes) -> int:
    return crc32(head, crc32(b"head " + id.encode(errors="replace")))


def state_checksum(id: str, key: str, value: bytes) -> int:
    return crc32(value, crc32(f"state {id} {key}".encode(errors="replace")))


def packed(session: str, first: int, lines: Iterable[bytes]) -> Iterator[tuple[str, int, int, bytes, int]]:
    """Lines as rows of the table, each row of a limited size."""
    for run in portions(lines, RECORD_SIZE):
        yield _row(session, first, run)
        first += len(run)


def portions(lines: Iterable[bytes], size: int = 32 * RECORD_SIZE) -> Iterator[list[bytes]]:
    """Lines in lists of about this many bytes."""
    portion: list[bytes] = []
    length = 0
    for line in lines:
        portion.append(line)
        length += len(line)
        if length >= size:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion


def _row(session: str, first: int, run: list[bytes]) -> tuple[str, int, int, bytes, int]:
    body = b"\n".join(run)
    if body.count(b"\n") >= len(run):  # JSON may have line breaks, but only where it may have spaces
        body = b"\n".join(line.replace(b"\n", b" ") for line in run)
    return session, first, len(run), body, checksum(session, first, len(run), body)


def is_whole(session: str, first: object, count: object, body: object, crc: object) -> bool:
    """Whether a record is unchanged since it was written."""
    if not (type(first) is int and type(count) is int and type(body) is bytes):
        return False
    return crc == checksum(session, first, count, body)


def read(db: "sqlite3.Connection", session: str, start: int, last: int) -> Iterator[list[bytes] | Damage]:
    """A session's lines from one on, record by record, with the numbers of missing lines in their place."""
    expected, place, bad = start, start, list[int]()
    while True:
        rows = db.execute(
            "SELECT number, first, count, body, crc FROM records WHERE session = ? AND first >= ? AND first <= ?"
            " ORDER BY first LIMIT ?",
            (session, place, last, SLICE),
        ).fetchall()
        for number, first, count, body, crc in rows:
            if not is_whole(session, first, count, body, crc) or first < expected:
                bad.append(number)
                continue
            if first > expected:
                yield Damage(expected, first - 1, tuple(bad))
                bad = []
            yield body.split(b"\n")
            expected = first + count
        if len(rows) < SLICE:
            break
        place = max(place, expected, rows[-1][1] + 1 if type(rows[-1][1]) is int else 0)
    if expected <= last or bad:
        yield Damage(expected, max(last, expected), tuple(bad))


def start_of(db: "sqlite3.Connection", session: str, line: int) -> int:
    """The first line of the record that holds a line."""
    row = db.execute("SELECT max(first) FROM records WHERE session = ? AND first <= ?", (session, line)).fetchone()
    return row[0] if type(row[0]) is int else line


def fold_all(db: "sqlite3.Connection", session: str, last: int) -> Head:
    """A head rebuilt from the readable part of the log."""
    head = Head()
    for part in read(db, session, 1, last):
        if isinstance(part, Damage):
            head.last = part.last
        else:
            head.fold(part)
    head.updated = now()
    return head
