"""A session's log over an engine's records, whatever the size of what is said.

An engine is given records it can hold many of at once; a frame that is larger is kept beside the log, and a record
says where.  Who reads gets it back one record at a time, so that nobody holds more than one such frame.
"""

from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec import Struct

from .engine import Engine, Entry, Lease, Record

LARGE = 512 * 1024  # bytes
_MARK = b'{"dragoman":"beside",'


class _Beside(Struct, tag_field="dragoman", tag="beside"):
    """Where a frame is that is not in the log itself."""

    blob: str


async def append(engine: Engine, lease: Lease, entries: Sequence[Entry], after: int) -> None:
    """Write records numbered from `after` + 1; durable when it returns."""
    kept = [await _kept(engine, lease, entry) if len(entry.frame) > LARGE else entry for entry in entries]
    await engine.append(lease, kept, after)


async def records(engine: Engine, session: str, after: int = 0) -> AsyncGenerator[Record, None]:
    """The records after a number, to the last one there is."""
    while page := await engine.read(session, after):
        for record in page:
            after = record.number
            yield await _whole(engine, session, record)


async def record(engine: Engine, session: str, number: int) -> Record:
    """One record."""
    (found,) = await engine.read(session, number - 1, 1)
    return await _whole(engine, session, found)


async def _kept(engine: Engine, lease: Lease, entry: Entry) -> Entry:
    beside = _Beside(await engine.put_blob(lease.name, entry.frame))
    return msgspec.structs.replace(entry, frame=msgspec.json.encode(beside))


async def _whole(engine: Engine, session: str, record: Record) -> Record:
    if not record.entry.frame.startswith(_MARK):
        return record
    name = msgspec.json.decode(record.entry.frame, type=_Beside).blob
    frame = b"".join([piece async for piece in engine.blob(session, name)])
    return msgspec.structs.replace(record, entry=msgspec.structs.replace(record.entry, frame=frame))
