"""A store's open files: one lock for writers, a note of the log's end, and the repair of damage.

Several processes may have a store open.  Writes and checkpoints happen under one lock, so there is one writer at a
time.
"""

import contextlib
import errno
import functools
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ..errors import StoreFailure
from ..places import FILE, TIP, copied, is_store
from ..repair.rebuilding import fill, salvage
from . import migrations
from .connecting import Level
from .guarded import GuardedFile, Make
from .locks import ARE_KEPT, NOT_KEPT, Claim, Lock
from .tip import Tip

log = logging.getLogger("dragoman")

HOLDERS = "holders"
CHECKPOINT = 8 * 1024 * 1024  # bytes of the write-ahead log after which it is written back


READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class StoreFile(GuardedFile):
    """The database of a store; used by one thread at a time."""

    def __init__(self, path: Path, level: Level = "process") -> None:
        self.shown = path  # the directory as the user knows it
        self.is_read_only = False
        self._logged = 0  # bytes since the last checkpoint
        self._number: int | None = None  # the record written last
        self._files = contextlib.ExitStack()  # what `close` has to close
        if not ARE_KEPT:
            self._take_copy(path, level)
            return
        made = not path.exists()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if made:
            path.chmod(0o700)  # whatever the umask says
        try:
            self._take(path, level)
        except OSError as exc:
            if exc.errno not in READ_ONLY or not is_store(path):
                raise
            self._take_copy(path, level)

    def _take_copy(self, path: Path, level: Level) -> None:
        """Open a store that cannot be written; it has to exist."""
        if not is_store(path):
            raise StoreFailure(NOT_KEPT)
        self.is_read_only = True
        self._take(self._files.enter_context(copied(path)), level)

    def _take(self, path: Path, level: Level) -> None:
        super().__init__(path / FILE, level)
        self.path = path
        try:
            self._lock = self._files.enter_context(contextlib.closing(Lock(path / "lock")))
            self._presence = self._files.enter_context(contextlib.closing(Lock(path / "presence")))
            with self._lock.held():
                self._presence.share()
                self._make_room(path / TIP)
                self._claim = self._files.enter_context(contextlib.closing(Claim(path / HOLDERS)))
                self._tip = self._files.enter_context(contextlib.closing(Tip(path / TIP)))
                self._connect()
        except BaseException:
            self._files.close()
            raise

    def _prepare(self) -> None:
        self.db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()  # `transaction` does it, under the lock
        migrations.bring_up_to_date(self.db, self.path)
        migrations.check(self.db)
        self._tip.check(self.db)

    def _saved(self) -> Make:
        return functools.partial(fill, directory=self.path, found=salvage(self.file), tip=self._tip.known())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._presence.alone():
            raise StoreFailure(f"{self.path} is damaged and in use by another process; end that, then try again")
        try:
            yield
        finally:
            self._presence.share()

    def mend(self, why: Exception | None = None) -> bool:
        with self._lock.held():
            return super().mend(why)

    def reopen(self) -> None:
        with self._lock.held():
            super().reopen()

    def close(self) -> None:
        """Close everything; a store that nobody uses is one file."""
        with self._files, self._lock.held():
            with contextlib.suppress(sqlite3.Error):
                self._checkpoint("TRUNCATE")
            self.db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that excludes other writers; within another, a part of it that can be undone by itself."""
        if self.is_read_only:
            why = f"{self.shown} cannot be written: it is on a read-only disk, or somebody else's"
            raise StoreFailure(why if ARE_KEPT else NOT_KEPT)
        before = self._number
        try:
            if self.db.in_transaction:
                with super().transaction():
                    yield
                return
            with self._lock.held():
                with super().transaction():
                    yield
                if self._number is not None:
                    self._tip.note(self._number)
                    self._number = None
                self._write_back()
        except BaseException:
            self._number = before
            raise

    def _write_back(self) -> None:
        if self._logged > CHECKPOINT:
            try:
                self._checkpoint("PASSIVE")
            except sqlite3.Error as exc:  # committed rows are in the log, and stay there
                log.error("%s: the log could not be written back: %s", self.file, exc)

    def _checkpoint(self, how: str) -> bool:
        """Write the log back; false if readers kept it from finishing."""
        self._logged = 0
        (is_busy, _, _) = self.db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        return not is_busy
