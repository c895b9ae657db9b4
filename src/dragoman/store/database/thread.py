"""One thread with a database: waiting jobs are committed together, and callers get results only after that."""

import asyncio
import contextlib
import functools
import itertools
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ...errors import Error

log = logging.getLogger("dragoman")

T = TypeVar("T")


class Transactional(Protocol):
    """A database as its thread sees it."""

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction; within another, a part of it that can be undone by itself."""

    def mend(self, why: Exception) -> bool:
        """Repair the damage that an error shows; false when it shows none."""

    def reopen(self) -> None:
        """Start again from the disk: after an error nothing in memory is reliable."""

    def close(self) -> None: ...


D = TypeVar("D", bound=Transactional)


class _Task(Struct):
    job: Callable[[Any], object]
    tell: Callable[[Any], None]
    loop: asyncio.AbstractEventLoop
    shares: bool


class DatabaseThread(Generic[D]):
    """Does its jobs in order; waiting jobs that share a transaction are committed together."""

    def __init__(self, opened: Callable[[], D], name: str, failure: Callable[[str], Error]) -> None:
        self._opened, self._failure = opened, failure
        self._db: D | None = None
        self._is_stale = False  # something failed: start again from the disk
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[D], T], tell: Callable[[T | Exception], None], *, shares: bool) -> None:
        """Queue a job; `tell` is called in this event loop, with the result or the error.

        An error of ours in a job that `shares` its transaction undoes this job alone; the others go on.
        """
        self._tasks.put(_Task(job, tell, asyncio.get_running_loop(), shares))

    async def run(self, job: Callable[[D], T], *, shares: bool) -> T:
        """Queue a job and wait for its result; the job is done even if the caller is cancelled."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(job, functools.partial(_settle, future), shares=shares)
        return await future

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return self._tasks.qsize()

    def close(self) -> None:
        """Do the remaining jobs, close the database and end; blocks."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        is_over = False
        while not is_over:
            waiting = [self._tasks.get()]
            while not self._tasks.empty():
                waiting.append(self._tasks.get())
            is_over = waiting[-1] is None  # nothing comes after it
            tasks = [task for task in waiting if task is not None]
            for shares, some in itertools.groupby(tasks, lambda task: task.shares):
                if shares:
                    self._commit(list(some))
                else:
                    for task in some:
                        _tell_all(task.loop, [(task, self._attempt(task.job))])
        self._close()

    def _commit(self, tasks: list[_Task]) -> None:
        outcomes = self._attempt(lambda db: _together(db, tasks))
        if isinstance(outcomes, Exception):
            outcomes = [outcomes] * len(tasks)
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Task, object]]] = {}
        for task, outcome in zip(tasks, outcomes, strict=True):
            by_loop.setdefault(task.loop, []).append((task, outcome))
        for loop, told in by_loop.items():  # each is woken once
            _tell_all(loop, told)

    def _attempt(self, job: Callable[[D], T]) -> T | Exception:
        """The result of a job, or its error."""
        try:
            return attempted(self._database(), job)
        except Error as exc:
            return exc
        except Exception as exc:
            return self._explained(exc)

    def _database(self) -> D:
        if self._db is None:
            self._db = self._opened()
        elif self._is_stale:
            self._db.reopen()
        self._is_stale = False
        return self._db

    def _explained(self, exc: Exception) -> Error:
        """The error for the caller; no further job runs before the database is opened anew."""
        # A full disk only undid the transaction that met it.
        self._is_stale = getattr(exc, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL
        if isinstance(exc, sqlite3.Error | OSError):
            log.error("%s failed: %s", self._thread.name, exc)
            return self._failure(str(exc))
        log.error("%s failed", self._thread.name, exc_info=exc)
        return self._failure(type(exc).__name__)

    def _close(self) -> None:
        if self._db is not None:
            try:
                self._db.close()
            except Exception as exc:
                log.error("%s could not be closed: %s", self._thread.name, exc)


def attempted(db: D, job: Callable[[D], T]) -> T:
    """The result of a job, or of a second try after a repair if the database proved damaged."""
    try:
        return job(db)
    except Error:
        raise
    except Exception as exc:
        if not db.mend(exc):
            raise
        return job(db)


def _together(db: Transactional, tasks: list[_Task]) -> list[object]:
    """The results of tasks in one transaction; a refused task is undone alone."""
    with db.transaction():
        if len(tasks) == 1:
            return [tasks[0].job(db)]
        return [_apart(db, task.job) for task in tasks]


def _apart(db: Transactional, job: Callable[[Any], object]) -> Any:
    try:
        with db.transaction():
            return job(db)
    except Error as refusal:
        return refusal


def _tell_all(loop: asyncio.AbstractEventLoop, told: list[tuple[_Task, object]]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed, and its waiting tasks ended with it
        loop.call_soon_threadsafe(_tell, told)


def _tell(told: list[tuple[_Task, object]]) -> None:
    for task, outcome in told:
        try:
            task.tell(outcome)
        except Exception:
            log.exception("the result of a write could not be delivered")


def _settle(future: "asyncio.Future[Any]", outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
