"""A database file that notices when it is damaged, missing or replaced, and is then rebuilt."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ..places import REBUILT, is_remote
from ..repair.replacing import beside, clear_up, foreign_files, is_certain, is_damage, replace, set_aside
from .connecting import Level, all_or_nothing, configure, connect
from .held_files import HoldingConnection, header_of

log = logging.getLogger("dragoman")

Make = Callable[[sqlite3.Connection], None]
Schema = list[tuple[str, str, str]]


_FORMATS = {1, 2}  # versions for writing and for reading: 1 with a journal, 2 with a write-ahead log
_FIXED = b"\x00\x40\x20\x20"  # the bytes after them are the same in every file


class Gone(sqlite3.DatabaseError):
    """The open file is not, or no longer, the file with its name."""


class GuardedFile:
    """A database that is written by one thread of one process at a time."""

    db: HoldingConnection

    def __init__(self, file: Path, level: Level) -> None:
        self.file, self._level = file, level
        self._identity: tuple[int, int] | None = None

    # Subclasses define these

    def _prepare(self) -> None:
        """Bring an opened database up to date; raises when a part of it is missing."""
        raise NotImplementedError

    def _saved(self) -> Make:
        """A function that fills a new database with the intact rows of the damaged files."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Raise if another process has the files open."""
        yield

    def _came_back(self) -> None:
        """Called when the database was reopened: cached facts about it may be wrong."""

    # Opening

    def _make_room(self, tip: Path) -> None:
        """Move foreign files away before ours are opened; ours may be put back later."""
        if found := foreign_files(self.file, tip):
            with self._alone():
                set_aside(found)

    def _connect(self) -> None:
        try:
            self._open()
        except Exception as exc:
            if not is_damage(exc):
                raise
            self._rebuild(exc)

    def _open(self) -> None:
        clear_up(self.file)
        self._identity = None
        self.db = connect(self.file)
        assert self.db.identity
        _check_header(header_of(self.db.identity, 24))
        configure(self.db, self.file, self._level)
        self._prepare()
        # On a network disk a file may have another number each time it is looked at.
        self._identity = None if is_remote(self.file) else _identity(self.file)

    def reopen(self) -> None:
        """Start again from the disk: after an error nothing in memory is reliable."""
        self._hang_up()
        self._connect()
        self._came_back()

    def _hang_up(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction in the file in place; within another, a part of it that can be undone by itself."""
        if not self.db.in_transaction:
            self.check()
        with all_or_nothing(self.db):
            yield

    def check(self) -> None:
        """Raise `Gone` when the files to write are no longer in place: SQLite itself does not check."""
        if self._identity is not None and (found := _identity(self.file)) != self._identity:
            raise Gone(f"it was {'deleted or emptied' if found is None else 'replaced'} while it was in use")

    # Mending

    def mend(self, why: Exception | None = None) -> bool:
        """Rebuild the database if an error or a full check shows that it is damaged; false if it is not."""
        what: object = why
        if why is None or not is_certain(why):
            what = self._damage() if why is None or is_damage(why) else None
        if what is None:
            return False
        self._rebuild(what)
        self._came_back()
        return True

    def _damage(self) -> object:
        try:
            self.check()
            (found,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        except Exception as exc:
            return exc if is_damage(exc) else None
        return None if found == "ok" else found

    def _rebuild(self, why: object) -> None:
        with self._alone():
            if isinstance(why, Gone) and self._brought_back():
                log.error("%s: %s; the open file is there again", self.file, why)
            elif isinstance(why, Gone) and _identity(self.file):
                log.error("%s: %s; the file that is there now is used", self.file, why)
                self._hang_up()
                self._connect()
                return
            else:
                # Closed only when everything is saved: closing may delete its log.
                replace(self.file, self._saved(), why, self._hang_up)
            self._open()

    def _brought_back(self) -> bool:
        """Restore a deleted file that is still open here; false if that fails."""
        found = _identity(self.file, is_empty=False)
        if found == self._identity or _identity(self.file) is not None:
            return False
        copy = self.file.with_name(REBUILT)
        copy.unlink(missing_ok=True)
        try:
            self.db.execute("VACUUM INTO ?", (str(copy),))
        except sqlite3.Error:
            return False
        copy.chmod(0o600)
        self._hang_up()
        for path in beside(self.file):  # the copy has their whole content
            path.unlink(missing_ok=True)
        copy.rename(self.file)
        return True


def schema_of(db: sqlite3.Connection) -> Schema:
    """The tables and indexes of a database, as it describes them."""
    return db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name").fetchall()


def _check_header(header: bytes) -> None:
    """Raise for a header that makes SQLite refuse to write or to open the file: we write no such header."""
    if header[18:] and (not {*header[18:20]} <= _FORMATS or header[20:] != _FIXED):
        raise sqlite3.DatabaseError("its header is damaged")


def _identity(file: Path, *, is_empty: bool = True) -> tuple[int, int] | None:
    """The file that a name leads to; None if there is none, or (if `is_empty` counts) if it was emptied."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size or not is_empty else None
