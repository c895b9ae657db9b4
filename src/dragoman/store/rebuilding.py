"""Makes a damaged database anew from what is whole in it; the damaged files are kept beside it."""

import datetime
import logging
import os
import shutil
import sqlite3
from pathlib import Path

import msgspec

from . import migrations
from .lines import now
from .records import fold_all, head_checksum
from .salvage import Salvage

log = logging.getLogger("dragoman")

QUARANTINE = "damaged-"
REBUILT = "rebuilt.db"
KEPT = 8  # times that damaged files are kept, for whoever wants to look at them
_HARMLESS = {
    3,
    5,
    6,
    7,
    8,
    9,
    10,
    13,
    14,
    23,
}  # results that say nothing about the file: busy, full, read-only, ...
_SHORT_READ = 522


def is_damage(exc: BaseException) -> bool:
    """Whether an error means that the file is not what it was."""
    if not isinstance(exc, sqlite3.DatabaseError) or isinstance(exc, sqlite3.ProgrammingError):
        return False
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code == _SHORT_READ or code & 0xFF not in _HARMLESS


def rebuild(file: Path, found: Salvage, tip: int, why: object) -> Path:
    """Put what was saved of a damaged database in its place; gives where the damaged one now is."""
    log.error("%s is damaged (%s); what is whole in it is being saved", file, why)
    rebuilt = file.with_name(REBUILT)
    rebuilt.unlink(missing_ok=True)
    rebuilt.touch(0o600)
    db = sqlite3.connect(rebuilt, isolation_level=None)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrations.bring_up_to_date(db, file.parent)
        db.execute("BEGIN")
        _fill(db, found, tip)
        db.execute("COMMIT")
    finally:
        db.close()
    kept = put_in_place(file)
    log.error(
        "%s was made anew: %d sessions, %d records; the damaged files are in %s",
        *(file, len(_sessions(found)), len(found.records), kept),
    )
    return kept


def put_in_place(file: Path) -> Path:
    """Move the damaged files away and the new one in their place."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
    kept = file.parent / f"{QUARANTINE}{stamp}"
    kept.mkdir(mode=0o700)
    for path in (file, *_beside(file)):
        if path.exists():
            path.rename(kept / path.name)
    file.with_name(REBUILT).rename(file)
    _sync(file.parent)
    for old in sorted(file.parent.glob(f"{QUARANTINE}*"))[:-KEPT]:
        shutil.rmtree(old)
    return kept


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def clear_up(file: Path) -> None:
    """Finish, or undo, what was cut short."""
    rebuilt = file.with_name(REBUILT)
    if rebuilt.exists() and not file.exists():
        put_in_place(file)
    for path in (rebuilt, *_beside(rebuilt)):
        path.unlink(missing_ok=True)


def _beside(file: Path) -> list[Path]:
    return [file.with_name(file.name + suffix) for suffix in ("-wal", "-shm", "-journal")]


def _sessions(found: Salvage) -> set[str]:
    return {session for session, _ in found.records} | found.heads.keys()


def _fill(db: sqlite3.Connection, found: Salvage, tip: int) -> None:
    records = [found.records[key] for key in sorted(found.records)]
    numbered = {record[0]: record for record in records if 0 < record[0] <= tip}  # others have a damaged number
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
    reached = {session: first + count - 1 for _, session, first, count, *_ in records}  # in order: the last counts
    for id in sorted(_sessions(found)):
        last, head, why = reached.get(id, 0), found.heads.get(id), lost
        if head is None or head.last < last:  # without its head nobody knows how long a log was
            head = fold_all(db, id, last)
            why = why or "its entry in the list was damaged; the end of this session may be missing"
        body = msgspec.json.encode(head)
        row = (id, body, head_checksum(id, body), why)
        db.execute("INSERT INTO sessions (id, head, crc, suspect) VALUES (?, ?, ?, ?)", row)
    db.execute("UPDATE meta SET value = ? WHERE key = 'sessions'", (len(_sessions(found)),))
    db.execute("INSERT INTO meta VALUES ('rebuilt', ?)", (now(),))
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('records', ?)", (max(tip, latest),))
