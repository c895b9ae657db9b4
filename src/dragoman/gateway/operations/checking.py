"""Verifies and copies a gateway's file, also beside a running gateway."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...errors import Error
from ...store.database.connecting import connect_reader
from ...store.database.tip import Tip
from ...store.places import QUARANTINE
from ..log import summary
from ..log.database import FILE, LAYOUT, TIP, fact_checksum, fact_key
from ..log.logs import blob_of
from ..log.session_facts import SessionFacts
from ..log.sqlite_reading import last_number, read_records

PAGE = 1000


def problems(directory: Path) -> Iterator[tuple[str, str]]:
    """The faults in a gateway's file, each with its session; nothing is changed."""
    try:
        with _opened(directory) as db:
            yield from _looked_through(db, directory)
    except (sqlite3.Error, UnicodeError) as exc:
        yield "", f"{directory / FILE} is damaged ({exc}); the gateway makes it anew when it starts"
    for path in sorted(directory.glob(f"{QUARANTINE}*")):
        yield "", f"damaged files of an earlier day are in {path}"


def count_sessions(directory: Path) -> int:
    with _opened(directory) as db:
        (count,) = db.execute("SELECT count(*) FROM facts WHERE kind = 'session'").fetchone()
        return int(count)


def back_up(directory: Path, target: Path) -> None:
    """Copy a consistent snapshot of a gateway's sessions into a directory with which a gateway can start."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = target / FILE
    if copy.exists():
        raise Error(f"{copy} is there already; name another directory")
    try:
        with _opened(directory) as db:
            db.execute("VACUUM INTO ?", (str(copy),))
        copy.chmod(0o600)
        with contextlib.closing(sqlite3.connect(copy)) as db, contextlib.closing(Tip(target / TIP)) as tip:
            row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
            tip.note(row[0] if row else 0)
        _sync(copy)
    except (sqlite3.Error, OSError) as exc:
        copy.unlink(missing_ok=True)
        raise Error(f"the copy could not be made: {exc}") from None


def _sync(file: Path) -> None:
    for path in (file, file.parent):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[sqlite3.Connection]:
    if not (directory / FILE).exists():
        raise Error(f"there is no gateway's log in {directory}; name its directory with --state")
    with contextlib.closing(connect_reader(directory / FILE)) as db:
        yield db


def _looked_through(db: sqlite3.Connection, directory: Path) -> Iterator[tuple[str, str]]:
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if layout != LAYOUT:
        raise Error(
            f"{directory / FILE} has layout {layout}, not {LAYOUT}; start the gateway once, or use a newer one"
        )
    for (found,) in db.execute("PRAGMA integrity_check(10)"):
        if found != "ok":
            yield "", str(found)
    if (directory / TIP).exists():
        with contextlib.closing(Tip(directory / TIP)) as tip:
            try:
                tip.check(db)
            except sqlite3.DatabaseError as exc:
                yield "", str(exc)
    db.execute("BEGIN")
    known = set[str]()
    for kind, key, value, revision, crc in db.execute("SELECT kind, key, value, revision, crc FROM facts"):
        if crc != fact_checksum(kind, key, value, revision):
            yield fact_key(key)[0] if kind in ("session", *summary.KINDS) else "", f"its {kind} is damaged"
        elif kind == "session":
            known.update(fact_key(key))
            msgspec.json.decode(value, type=SessionFacts)
    doomed = {id for (id,) in db.execute("SELECT session FROM doomed")}
    logged = {id for (id,) in db.execute("SELECT DISTINCT session FROM records")}
    for id in sorted(known | logged - doomed):
        if id not in known:
            yield id, "there is a log, and nothing is known of the session"
        yield from ((id, problem) for problem in _log(db, id))


def _log(db: sqlite3.Connection, session: str) -> Iterator[str]:
    at, last = 0, last_number(db, session)
    while at < last and (page := read_records(db, session, at, PAGE)):
        for record in page:
            at = record.number
            if not record.is_whole:
                yield f"record {at} is damaged or missing"
            elif (name := blob_of(record.entry.frame)) and not _is_blob_whole(db, session, name):
                yield f"record {at} is damaged: what is kept beside the log is not what it was"


def _is_blob_whole(db: sqlite3.Connection, session: str, name: str) -> bool:
    row = db.execute("SELECT data FROM blobs WHERE session = ? AND name = ?", (session, name)).fetchone()
    return row is not None and isinstance(row[0], bytes) and hashlib.sha256(row[0]).hexdigest() == name
