"""One thread that has the database: whatever waits is committed together, and only then is anybody told."""

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from msgspec import Struct

from ..errors import Error
from .database import Database, Entry
from .errors import StoreFailure
from .rebuilding import is_damage

log = logging.getLogger("dragoman")

T = TypeVar("T")
Done = Callable[[Exception | None], None]


class _Append(Struct):
    entries: list[Entry]
    done: Done


class _Job(Struct):
    run: Callable[[Database], Any]
    future: "Future[Any]"


class Writer:
    """Carries out what it is given, in order; appends that wait together share a transaction."""

    def __init__(self, opened: Callable[[], Database]) -> None:
        self._opened = opened
        self._db: Database | None = None
        self._is_stale = False  # something failed: start again from the disk
        self._queue: queue.SimpleQueue[_Append | _Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="dragoman store", daemon=True)
        self._thread.start()

    def append(self, entries: list[Entry], done: Done) -> None:
        """Have lines stored; `done` is called in the writer's thread, with what went wrong or nothing."""
        self._queue.put(_Append(entries, done))

    def run(self, job: Callable[[Database], T]) -> "Future[T]":
        """Have something done with the database, after all that was asked for before."""
        future: Future[T] = Future()
        self._queue.put(_Job(job, future))
        return future

    def close(self) -> None:
        """Do what is left, close the database and end; blocks."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            work = [self._queue.get()]
            while not self._queue.empty():
                work.append(self._queue.get())
            appends: list[_Append] = []
            for item in work:
                if isinstance(item, _Append):
                    appends.append(item)
                    continue
                self._append(appends)
                appends = []
                if item is None:
                    self._close()
                    return
                self._run(item)
            self._append(appends)

    def _append(self, appends: list[_Append]) -> None:
        if not appends:
            return
        failure: Exception | None = None
        try:
            entries = [entry for append in appends for entry in append.entries]
            self._attempt(lambda db: db.append(entries))
        except Exception as exc:
            failure = self._explained(exc)
        for append in appends:
            append.done(failure)

    def _run(self, job: _Job) -> None:
        try:
            job.future.set_result(self._attempt(job.run))
        except Exception as exc:
            job.future.set_exception(self._explained(exc))

    def _attempt(self, job: Callable[[Database], T]) -> T:
        """Do it; should the database turn out to be damaged, do it again with what could be saved."""
        try:
            return job(self._database())
        except sqlite3.DatabaseError as exc:
            if not is_damage(exc) or self._db is None:
                raise
            self._db.mend(exc)
            return job(self._db)

    def _database(self) -> Database:
        if self._db is None:
            self._db = self._opened()
        elif self._is_stale:
            self._db.reopen()
        self._is_stale = False
        return self._db

    def _explained(self, exc: Exception) -> Exception:
        """The error to tell; whatever broke, nothing more is taken before the database was opened anew."""
        if isinstance(exc, Error):
            return exc
        self._is_stale = (
            getattr(exc, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL
        )  # that one undid nothing else
        if isinstance(exc, sqlite3.Error | OSError):
            log.error("the session store failed: %s", exc)
            return StoreFailure(f"The session cannot be stored: {exc}")
        log.error("the session store failed", exc_info=exc)
        return StoreFailure(f"The session cannot be stored: {type(exc).__name__}")

    def _close(self) -> None:
        if self._db is not None:
            try:
                self._db.close()
            except Exception as exc:
                log.error("the session store could not be closed: %s", exc)
