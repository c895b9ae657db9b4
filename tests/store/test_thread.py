"""The thread that has a database: what waits together is committed together."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Error
from dragoman.store.database.connecting import all_or_nothing, connect
from dragoman.store.database.thread import DatabaseThread


class Refused(Error):
    """A job that does not like what it finds."""


class Failed(Error):
    """What a failure is told as."""


class Counted:
    """A file of SQLite that counts its transactions, and how often it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path / "counted.db"
        self.opened = self.transactions = self.mended = 0
        self._open()
        self.db.execute("CREATE TABLE words (word TEXT)")

    def _open(self) -> None:
        self.db = connect(self._path)
        self.opened += 1

    def transaction(self) -> AbstractContextManager[None]:
        self.transactions += not self.db.in_transaction
        return all_or_nothing(self.db)

    def mend(self, why: Exception) -> bool:
        if isinstance(why, sqlite3.IntegrityError):
            self.mended += 1
            return True
        return False

    def reopen(self) -> None:
        self.db.close()
        self._open()

    def close(self) -> None:
        self.db.close()

    def add(self, word: str) -> None:
        self.db.execute("INSERT INTO words VALUES (?)", (word,))


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[DatabaseThread[Counted]]:
    thread = DatabaseThread(lambda: Counted(tmp_path), "words", Failed)
    yield thread
    await asyncio.to_thread(thread.close)


@contextlib.contextmanager
def held_up(thread: DatabaseThread[Counted]) -> Any:
    """Have the thread wait, so that what comes meanwhile waits together."""
    may_go_on = threading.Event()
    thread.submit(lambda db: may_go_on.wait(10), lambda outcome: None, shares=False)
    try:
        yield
    finally:
        may_go_on.set()


async def words(thread: DatabaseThread[Counted]) -> list[str]:
    return await thread.run(
        lambda db: [word for (word,) in db.db.execute("SELECT word FROM words ORDER BY rowid")], shares=False
    )


def adding(word: str) -> Callable[[Counted], None]:
    return lambda db: db.add(word)


async def test_what_waits_together_is_committed_together(thread: DatabaseThread[Counted]) -> None:
    with held_up(thread):
        waiting = asyncio.gather(*(thread.run(adding(str(number)), shares=True) for number in range(20)))
        await asyncio.sleep(0)
    await waiting
    assert await words(thread) == [str(number) for number in range(20)]
    assert await thread.run(lambda db: db.transactions, shares=False) == 1


async def test_what_is_refused_is_undone_and_the_others_go_on(thread: DatabaseThread[Counted]) -> None:
    def refused(db: Counted) -> None:
        db.add("refused")
        raise Refused("no")

    jobs = [adding("one"), refused, adding("two")]
    with held_up(thread):
        waiting = asyncio.gather(*(thread.run(job, shares=True) for job in jobs), return_exceptions=True)
        await asyncio.sleep(0)
    assert [type(outcome) for outcome in await waiting] == [type(None), Refused, type(None)]
    assert await words(thread) == ["one", "two"]
    with pytest.raises(Refused):
        await thread.run(refused, shares=True)
    assert await words(thread) == ["one", "two"]


@pytest.mark.parametrize("failure", [sqlite3.OperationalError("disk I/O error"), OSError(5, "no"), ValueError("?")])
async def test_after_a_failure_nobody_is_told_otherwise_and_the_database_is_opened_anew(
    thread: DatabaseThread[Counted], failure: Exception
) -> None:
    def failing(db: Counted) -> None:
        db.add("failed")
        raise failure

    with held_up(thread):
        waiting = asyncio.gather(
            *(thread.run(job, shares=True) for job in (adding("beside it"), failing)), return_exceptions=True
        )
        await asyncio.sleep(0)
    assert [type(outcome) for outcome in await waiting] == [Failed, Failed]
    await thread.run(adding("after"), shares=True)
    assert await words(thread) == ["after"]
    assert await thread.run(lambda db: db.opened, shares=False) == 2


async def test_what_damage_kept_from_being_done_is_done_once_it_is_mended(thread: DatabaseThread[Counted]) -> None:
    def adding_once_mended(db: Counted) -> None:
        db.add("mended")
        if not db.mended:
            raise sqlite3.IntegrityError("damaged")

    await thread.run(adding_once_mended, shares=True)
    assert await words(thread) == ["mended"]


async def test_what_nobody_waits_for_any_more_is_done_all_the_same(thread: DatabaseThread[Counted]) -> None:
    with held_up(thread):
        waiting = asyncio.create_task(thread.run(adding("done"), shares=True))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await words(thread) == ["done"]


async def test_what_was_asked_for_is_done_before_the_end(tmp_path: Path) -> None:
    thread = DatabaseThread(lambda: Counted(tmp_path), "words", Failed)
    waiting = [asyncio.create_task(thread.run(adding(str(number)), shares=True)) for number in range(5)]
    await asyncio.sleep(0)
    await asyncio.to_thread(thread.close)
    await asyncio.gather(*waiting)
    with contextlib.closing(sqlite3.connect(tmp_path / "counted.db")) as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (5,)
