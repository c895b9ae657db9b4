"""Stores sessions for any number of agents and connections of this process."""

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from .errors import SessionCorrupted, SessionExpired, StoreFailure
from .lines import Head, now
from .places import default_path

if TYPE_CHECKING:
    from .database.connecting import Level
    from .database.database import Database, Entry
    from .database.thread import DatabaseThread
    from .records import Damage

T = TypeVar("T")


class Store:
    """Keeps sessions in a directory; `async with` opens it, and the last to leave closes it.

    With the level `process`, a killed process loses nothing; with `power`, neither does a power failure.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        level: "Level" = "process",
        max_age: timedelta | None = None,
    ) -> None:
        self.path = default_path() if path is None else Path(path)
        self._level = level
        self._max_age = max_age
        self._users = 0
        self._thread: DatabaseThread[Database] | None = None

    async def __aenter__(self) -> Self:
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users and self._thread:
            thread, self._thread = self._thread, None
            await asyncio.to_thread(thread.close)

    async def run(self, job: "Callable[[Database], T]") -> T:
        """Run a function with the database, in its own thread and in order."""
        return await self._opened().run(job, shares=False)

    async def commit(self, job: "Callable[[Database], T]") -> T:
        """Run a change like `run`, committed together with other waiting changes."""
        return await self._opened().run(job, shares=True)

    def append(self, entries: "list[Entry]", told: "Callable[[Exception | None], None]") -> None:
        """Store lines; `told` is called once they are stored, or with the reason why they cannot be."""
        self._opened().submit(lambda db: db.append(entries), told, shares=True)

    def warm_up(self) -> None:
        """Begin to open the database for the next caller."""
        self._opened().submit(lambda db: None, lambda outcome: None, shares=False)

    def _opened(self) -> "DatabaseThread[Database]":
        if self._thread is None:
            from .database.database import (
                Database,  # SQLite is loaded when it is needed, after `initialize` was answered
            )
            from .database.thread import DatabaseThread

            opened = functools.partial(Database, self.path, self._level)
            self._thread = DatabaseThread(opened, "session store", _failure)
        return self._thread

    def check_age(self, id: str, head: Head) -> None:
        """Refuse a session that was not used for too long."""
        if self.is_expired(head):
            raise SessionExpired(id)

    def is_expired(self, head: Head) -> bool:
        """Whether a session is older than the store's `max_age`."""
        return self._max_age is not None and now() - head.updated > self._max_age.total_seconds() * 1000

    async def read(self, id: str, last: int) -> "AsyncGenerator[list[bytes] | Damage, None]":
        """A session's log from its beginning, a few records at a time, so that any length fits into memory.

        The first fault found starts a check of the whole database; then its intact parts are read.
        """
        from .database.reading import pieces

        place, is_mended = 1, False
        while True:
            async with contextlib.aclosing(pieces(self.path, id, place, last)) as parts:
                async for part in parts:
                    if part is None or (not isinstance(part, list) and not is_mended):
                        break
                    yield part
                    place = place + len(part) if isinstance(part, list) else part.last + 1
                else:
                    return
            if is_mended:
                raise SessionCorrupted(id, "it cannot be read, not even after a repair")
            is_mended = True
            await self.run(lambda db: db.mend())


def _failure(why: str) -> StoreFailure:
    return StoreFailure(f"The session cannot be stored: {why}")
