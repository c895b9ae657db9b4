"""Reading a log beside its writer, in slices, without holding up anything else."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from ..errors import StoreFailure
from ..places import FILE
from ..records import Damage, read
from ..repair.replacing import is_damage
from .connecting import connect_reader

AT_ONCE = 8  # records read at a time in a thread


async def pieces(path: Path, id: str, first: int, last: int) -> AsyncGenerator[list[bytes] | Damage | None, None]:
    """The records of a log from a line on; None, and then no more, when the database is too damaged to go on."""
    try:
        db = await asyncio.to_thread(connect_reader, path / FILE)
    except sqlite3.Error as exc:
        raise _unreadable(exc) from exc
    try:
        parts = read(db, id, first, last)
        while some := await asyncio.to_thread(_several, parts):
            for part in some:
                yield part
    finally:
        db.close()


def _several(parts: Iterator[list[bytes] | Damage]) -> list[list[bytes] | Damage | None]:
    found: list[list[bytes] | Damage | None] = []
    try:
        for part in parts:
            found.append(part)
            if len(found) == AT_ONCE:
                break
    except Exception as exc:
        if not is_damage(exc):
            raise _unreadable(exc) from exc
        found.append(None)
    return found


def _unreadable(exc: Exception) -> StoreFailure:
    return StoreFailure(f"The session cannot be read: {exc}")
