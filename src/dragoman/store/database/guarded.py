"""A database file that says when it is damaged, gone or not the one that was opened, and is made anew then."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ..places import REBUILT, is_remote
from ..repair.replacing import beside, clear_up, is_certain, is_damage, replace, set_aside, strangers
from .connecting import Level, all_or_nothing, configure, connect

log = logging.getLogger("dragoman")

Make = Callable[[sqlite3.Connection], None]
Schema = list[tuple[str, str, str]]


_FORMATS = {1, 2}  # of writing and of reading: with a journal, or with a write-ahead log
_FIXED = b"\x00\x40\x20\x20"  # the bytes behind them are the same in every file


class Gone(sqlite3.DatabaseError):
    """The file that is open is not, or no longer, the one that is there under its name."""


class GuardedFile:
    """A database that is written by one thread of one process at a time."""

    db: sqlite3.Connection

    def __init__(self, file: Path, level: Level) -> None:
        self.file, self._level = file, level
        self._identity: tuple[int, int] | None = None

    # What a kind of database is

    def _prepare(self) -> None:
        """Bring what was opened up to date; raises when something of it is missing."""
        raise NotImplementedError

    def _saved(self) -> Make:
        """What fills a new database with all that is whole in the damaged files."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else has the files; raises when somebody does."""
        yield

    def _came_back(self) -> None:
        """What is known of the database may have changed: it was opened anew."""

    # Opening

    def _make_room(self, tip: Path) -> None:
        """Move away what is no file of ours, before ours are opened; later, ours may be put back."""
        if found := strangers(self.file, tip):
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
        _check_header(self.file)
        configure(self.db, self.file, self._level)
        self._prepare()
        # On a network disk a file may have another number each time it is looked at.
        self._identity = None if is_remote(self.file) else _identity(self.file)

    def reopen(self) -> None:
        """Start again from what is on the disk: after an error nothing in memory is to be believed."""
        self._hang_up()
        self._connect()
        self._came_back()

    def _hang_up(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, in the file that is there; within another, a part of it that can be undone by itself."""
        if not self.db.in_transaction:
            self.check()
        with all_or_nothing(self.db):
            yield

    def check(self) -> None:
        """Raise `Gone` when what would be written is not found again: SQLite itself does not look."""
        if self._identity is not None and (found := _identity(self.file)) != self._identity:
            raise Gone(f"it was {'deleted or emptied' if found is None else 'replaced'} while it was in use")

    # Mending

    def mend(self, why: Exception | None = None) -> bool:
        """Make the database anew if it is damaged, says an error or a look at all of it; false when it is not."""
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
                log.error("%s: %s; what was open is there again", self.file, why)
            elif isinstance(why, Gone) and _identity(self.file):
                log.error("%s: %s; what is there now is used", self.file, why)
                self._hang_up()
                self._connect()
                return
            else:
                # It is closed when all is saved, not before: closing may be the end of its log.
                replace(self.file, self._saved(), why, self._hang_up)
            self._open()

    def _brought_back(self) -> bool:
        """Write a file that was deleted again, while it is still open here; false when it cannot be."""
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
        for path in beside(self.file):  # all they say is in the copy
            path.unlink(missing_ok=True)
        copy.rename(self.file)
        return True


def schema_of(db: sqlite3.Connection) -> Schema:
    """The tables and indexes of a database, as it describes them."""
    return db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name").fetchall()


def _check_header(file: Path) -> None:
    """Raise for a header that would make SQLite only read the file, or not know it: we write no such header."""
    with file.open("rb") as opened:
        header = opened.read(24)
    if header[18:] and (not {*header[18:20]} <= _FORMATS or header[20:] != _FIXED):
        raise sqlite3.DatabaseError("its header is damaged")


def _identity(file: Path, *, is_empty: bool = True) -> tuple[int, int] | None:
    """Which file a name leads to; None when it leads to none, or (if `is_empty` counts) to one that was emptied."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size or not is_empty else None
