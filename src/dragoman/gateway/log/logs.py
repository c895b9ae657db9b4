"""A session's log over an engine's records, with frames of any size.

An engine handles many small records at once.  A larger frame is stored as a blob, and its record names it.  Readers
get it back one record at a time, so that no more than one such frame is in memory.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec import Struct

from .engine import DamagedLog, Engine, Lease, LogEntry, LogReader, StoredRecord
from .records import raw, update_frame

log = logging.getLogger("dragoman")

LARGE = 512 * 1024  # bytes
_MARK = b'{"dragoman":"beside",'


class _Beside(Struct, tag_field="dragoman", tag="beside"):
    """The name of a blob with the frame."""

    blob: str


async def append(engine: Engine, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
    """Write records numbered from `after` + 1; durable when it returns."""
    kept = [await _kept(engine, lease, entry) for entry in entries]
    await engine.append(lease, kept, after)


async def adopt(engine: Engine, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
    """Write the records of another log unchanged."""
    kept = [
        msgspec.structs.replace(record, entry=await _kept(engine, lease, record.entry), is_whole=True)
        for record in records
    ]
    await engine.adopt(lease, kept, after)


async def records(engine: LogReader, session: str, after: int = 0) -> AsyncGenerator[StoredRecord, None]:
    """The records after a number, to the last one."""
    while page := await engine.read(session, after):
        for record in page:
            after = record.number
            yield await _whole(engine, session, record)


async def record(engine: LogReader, session: str, number: int) -> StoredRecord:
    """One record."""
    (found,) = await engine.read(session, number - 1, 1)
    return await _whole(engine, session, found)


async def _kept(engine: Engine, lease: Lease, entry: LogEntry) -> LogEntry:
    """An entry for the engine; a large frame is stored as a blob."""
    if len(entry.frame) <= LARGE:
        return entry
    beside = _Beside(await engine.put_blob(lease, entry.frame))
    return msgspec.structs.replace(entry, frame=msgspec.json.encode(beside))


async def _whole(engine: LogReader, session: str, record: StoredRecord) -> StoredRecord:
    """A record with its frame; an unreadable one is replaced by an update that says so, to all clients."""
    frame: bytes | None = record.entry.frame if record.is_whole else None
    if frame is not None and (name := blob_of(frame)):
        frame = await _beside(engine, session, name)
    if frame is None:
        frame = damage_frame(session, record.number)
        return msgspec.structs.replace(record, entry=LogEntry("gateway", frame), is_whole=False)
    if frame is record.entry.frame:
        return record
    return msgspec.structs.replace(record, entry=msgspec.structs.replace(record.entry, frame=frame))


def blob_of(frame: bytes) -> str | None:
    """The name of the blob in a record, if it has one."""
    return msgspec.json.decode(frame, type=_Beside).blob if frame.startswith(_MARK) else None


async def _beside(engine: LogReader, session: str, name: str) -> bytes | None:
    """A frame from a blob; None if it is damaged."""
    try:
        frame = b"".join([piece async for piece in engine.blob(session, name)])
    except DamagedLog:
        return None
    return frame if hashlib.sha256(frame).hexdigest() == name else None


def damage_frame(session: str, number: int) -> bytes:
    """The update in place of an unreadable record: a text, which every client shows."""
    log.error("record %d of session %s is damaged", number, session)
    text = f"[Damaged: record {number} of this session's log cannot be read.]"
    update = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": f"damaged-{number}",
        "content": {"type": "text", "text": text},
    }
    return update_frame({"update": raw(update)}, session, number)
