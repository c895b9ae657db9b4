"""A store's files, opened: one lock for whoever writes, a note of how far the log got, and mending what is damaged.

Several processes may have a store open.  Whoever writes or checkpoints does so under one lock, so that there is one
writer at any moment.
"""

import contextlib
import logging
import os
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

from . import migrations
from .connecting import Level, all_or_nothing, configure, connect
from .errors import StoreFailure
from .locks import Claim, Lock, opened_file
from .rebuilding import clear_up, is_damage, rebuild
from .salvage import salvage

log = logging.getLogger("dragoman")

FILE = "sessions.db"
HOLDERS = "holders"
CHECKPOINT = 8 * 1024 * 1024  # bytes of the write-ahead log after which it is written back
_TIP = struct.Struct("<Q")


class StoreFile:
    """The database of a store; used by one thread at a time."""

    def __init__(self, path: Path, level: Level = "process") -> None:
        self.path = path
        self._level = level
        self._logged = 0  # bytes since the last checkpoint
        self._number: int | None = None  # the record written last
        made = not path.exists()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if made:
            path.chmod(0o700)  # whatever the umask says
        self._files = contextlib.ExitStack()  # what is to be closed
        try:
            self._lock = self._files.enter_context(contextlib.closing(Lock(path / "lock")))
            self._presence = self._files.enter_context(contextlib.closing(Lock(path / "presence")))
            with self._lock.held():
                self._presence.share()
                self._claim = self._files.enter_context(contextlib.closing(Claim(path / HOLDERS)))
                self._tip = opened_file(path / "tip")
                self._files.callback(os.close, self._tip)
                self._connect()
        except BaseException:
            self._files.close()
            raise

    def _connect(self) -> None:
        try:
            self._open()
        except sqlite3.DatabaseError as exc:
            if not is_damage(exc):
                raise
            self._rebuild(exc)

    def _open(self) -> None:
        file = self.path / FILE
        clear_up(file)
        self.db = connect(file)
        configure(self.db, file, self._level)
        self.db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()  # `transaction` does it, under the lock
        migrations.bring_up_to_date(self.db, self.path)
        self._look_for_losses()

    def _rebuild(self, why: object) -> None:
        if not self._presence.alone():
            raise StoreFailure(f"{self.path} is damaged and in use by another process; end that, then try again")
        try:
            found = salvage(self.path / FILE)  # before it is closed, which may be the end of its log
            with contextlib.suppress(sqlite3.Error):
                self.db.close()
            rebuild(self.path / FILE, found, self._known_tip(), why)
            self._open()
        finally:
            self._presence.share()

    def mend(self, why: Exception | None = None) -> bool:
        """Make the database anew if it is damaged, says an error or a look at all of it; false when it is not."""
        with self._lock.held():
            what = self._damage() if why is None else why if is_damage(why) else None
            if what is None:
                return False
            self._rebuild(what)
            self._came_back()
            return True

    def _damage(self) -> object:
        try:
            (found,) = self.db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as exc:
            return exc
        return None if found == "ok" else found

    def reopen(self) -> None:
        """Start again from what is on the disk: after an error nothing in memory is to be believed."""
        with self._lock.held():
            with contextlib.suppress(sqlite3.Error):
                self.db.close()
            self._connect()
            self._came_back()

    def _came_back(self) -> None:
        """What is known of the database may have changed: it was opened anew."""

    def close(self) -> None:
        """Let go of everything; a store nobody uses is one file."""
        with self._files, self._lock.held():
            with contextlib.suppress(sqlite3.Error):
                self._checkpoint("TRUNCATE")
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and nobody else meanwhile; within another, a part of it that can be undone by itself."""
        before = self._number
        try:
            if self.db.in_transaction:
                with all_or_nothing(self.db):
                    yield
                return
            with self._lock.held():
                with all_or_nothing(self.db):
                    yield
                self._note_tip()
                self._write_back()
        except BaseException:
            self._number = before
            raise

    def _note_tip(self) -> None:
        """Write down, outside of the database, how far it has got: should its log go missing, it shows."""
        if self._number is not None:
            os.pwrite(self._tip, _TIP.pack(self._number), 0)
            self._number = None

    def _known_tip(self) -> int:
        tip = os.pread(self._tip, _TIP.size, 0)
        number: int = _TIP.unpack(tip)[0] if len(tip) == _TIP.size else 0
        return number

    def _look_for_losses(self) -> None:
        row = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        reached, known = row[0] if row else 0, self._known_tip()
        if type(reached) is not int or known > reached:
            raise sqlite3.DatabaseError(f"its records end at {reached}, not at {known}")

    def _write_back(self) -> None:
        if self._logged > CHECKPOINT:
            try:
                self._checkpoint("PASSIVE")
            except sqlite3.Error as exc:  # what was committed is in the log, and stays there
                log.error("%s: the log could not be written back: %s", self.path / FILE, exc)

    def _checkpoint(self, how: str) -> bool:
        """Write the log back; false when readers kept it from being done to the end."""
        self._logged = 0
        (is_busy, _, _) = self.db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        return not is_busy
