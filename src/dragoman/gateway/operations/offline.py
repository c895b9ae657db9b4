"""Access to a gateway's directory while no gateway runs."""

import contextlib
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path

from ...errors import Error
from ...foundation.unix import fcntl
from ..log.database import FILE
from ..log.retention import Expired, Expiry, Retention, forget_session
from ..log.sqlite import SqliteEngine
from ..log.sqlite_reading import SqliteReader
from ..metrics import Metrics


@contextlib.contextmanager
def only_one(directory: Path, lock: int | None = None) -> Iterator[int]:
    """Lock the directory, because two gateways must not write the same logs.

    `lock` is a descriptor with another process's lock, which this one shares.
    """
    fd = lock if lock is not None else os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = "stop it, take over from it (--take-over), or use another --state"
            raise Error(f"another gateway uses {directory}; {other}") from None
        yield fd
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def stopped(directory: Path, *, is_made: bool = False) -> AsyncIterator[SqliteEngine]:
    """The engine of a stopped gateway."""
    if is_made:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        _check(directory)
    with only_one(directory):
        engine = SqliteEngine(directory, "power")
        try:
            yield engine
        finally:
            await engine.close()


@contextlib.asynccontextmanager
async def reading(directory: Path) -> AsyncIterator[SqliteReader]:
    """A reader of a gateway's data, whether it runs or not."""
    _check(directory)
    reader = SqliteReader(directory)
    try:
        yield reader
    finally:
        await reader.close()


def _check(directory: Path) -> None:
    if not (directory / FILE).exists():
        raise Error(f"there is no gateway's log in {directory}; name its directory with --state")


async def expire(
    directory: Path, retention: Retention, principal: str | None, *, is_dry: bool
) -> AsyncGenerator[Expired, None]:
    """Delete sessions beyond a retention; returns those deleted, or to be deleted."""
    async with stopped(directory) as engine:

        async def delete(session: str, _: float) -> bool:
            await forget_session(engine, session)
            return True

        expiry = Expiry(engine, Retention(), (), delete, Metrics())
        if not is_dry:
            await expiry.clear_away()
        async for one in expiry.expire(retention, principal, is_dry=is_dry):
            yield one


def retention_of(days: float | None, sessions: int | None, size: int | None) -> Retention:
    """The retention from the command line."""
    return Retention(seconds=None if days is None else days * 86400, sessions=sessions, bytes=size)


def day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
