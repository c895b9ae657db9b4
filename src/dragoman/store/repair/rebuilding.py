"""Saves the intact parts of a damaged store, and fills a new one with them."""

import logging
import sqlite3
from pathlib import Path

import msgspec
from msgspec import Struct

from ..database import migrations
from ..lines import Head, now
from ..records import fold_all, head_checksum, is_whole, read_head, state_checksum
from .salvage import Row, salvaged_rows

log = logging.getLogger("dragoman")

Record = tuple[int, str, int, int, bytes, int]  # a record as it is in its table, its number first


class Salvage(Struct):
    """The rows found intact."""

    records: dict[tuple[str, int], Record] = {}
    heads: dict[str, Head] = {}
    states: dict[tuple[str, str], tuple[bytes, int]] = {}

    def take(self, number: int, row: Row) -> None:
        """Keep a row if it is one of ours and intact."""
        match row:
            case [_, str() as session, int() as first, int() as count, bytes() as body, int() as crc]:
                if is_whole(session, first, count, body, crc):
                    self.records[session, first] = number, session, first, count, body, crc
            case [str() as id, bytes() as body, int() as crc, _, _]:
                if crc == head_checksum(id, body):
                    head = read_head(body)
                    if id not in self.heads or head.last >= self.heads[id].last:
                        self.heads[id] = head
            case [str() as session, str() as key, bytes() as value, int() as crc]:
                if crc == state_checksum(session, key, value):
                    self.states[session, key] = value, crc

    @property
    def sessions(self) -> set[str]:
        return {session for session, _ in self.records} | self.heads.keys()


def salvage(file: Path) -> Salvage:
    """All intact rows of a store's database and its write-ahead log."""
    found = Salvage()
    for number, row in salvaged_rows(file):
        try:
            found.take(number, row)
        except Exception as exc:  # an error of one row does not stop the others
            log.debug("a row was not saved: %r", exc)
    log.error("%s: %d sessions and %d records are whole", file, len(found.sessions), len(found.records))
    return found


def fill(db: sqlite3.Connection, directory: Path, found: Salvage, tip: int) -> None:
    """Make a new store's database of the saved rows; `tip` is the number of the last record."""
    migrations.bring_up_to_date(db, directory)
    db.execute("BEGIN")
    _fill(db, found, tip)
    db.execute("COMMIT")


def _fill(db: sqlite3.Connection, found: Salvage, tip: int) -> None:
    records = [found.records[key] for key in sorted(found.records)]
    numbered = {record[0]: record for record in records if 0 < record[0] <= tip}  # others have damaged numbers
    unnumbered = [(None, *record[1:]) for record in records if numbered.get(record[0]) is not record]
    latest = max(numbered, default=0)
    lost = None
    if latest < tip:
        lost = f"the store lost its latest {tip - latest} records; the end of this session may be missing"
    db.executemany(
        "INSERT INTO records (number, session, first, count, body, crc) VALUES (?, ?, ?, ?, ?, ?)",
        [*numbered.values(), *unnumbered],
    )
    db.executemany(
        "INSERT INTO states (session, key, value, crc) VALUES (?, ?, ?, ?)",
        [(session, key, value, crc) for (session, key), (value, crc) in found.states.items()],
    )
    reached = {session: first + count - 1 for _, session, first, count, *_ in records}  # the last one counts
    for id in sorted(found.sessions):
        last, head, why = reached.get(id, 0), found.heads.get(id), lost
        if head is None or head.last < last:  # without its head, the length of a log is unknown
            head = fold_all(db, id, last)
            why = why or "its entry in the list was damaged; the end of this session may be missing"
        body = msgspec.json.encode(head)
        row = (id, body, head_checksum(id, body), why)
        db.execute("INSERT INTO sessions (id, head, crc, suspect) VALUES (?, ?, ?, ?)", row)
    db.execute("UPDATE meta SET value = ? WHERE key = 'sessions'", (len(found.sessions),))
    db.execute("INSERT INTO meta VALUES ('rebuilt', ?)", (now(),))
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('records', ?)", (max(tip, latest),))
