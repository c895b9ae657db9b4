"""Messages with several records of a session's log and a checksum over them."""

from collections.abc import Iterator, Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from ..engine import LogEntry, Origin, StoredRecord

LONGEST = 768 * 1024  # bytes of frames in one message, which must stay below a megabyte
_CHECKSUM = 4  # bytes


class _Record(Struct, array_like=True):
    epoch: int
    time: float
    origin: Origin
    principal: str
    client: str
    frame: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Record]).decode


def packed(records: Sequence[StoredRecord]) -> bytes:
    """Records as one message; a message without records only announces a new writer."""
    said = [
        _Record(record.epoch, record.time, entry.origin, entry.principal, entry.client, entry.frame)
        for record in records
        for entry in (record.entry,)
    ]
    data = _encode(said)
    return crc32(data).to_bytes(_CHECKSUM) + data


def unpacked(data: bytes, first: int, last: int) -> list[StoredRecord]:
    """The records of a message, with damaged markers in place of damaged ones."""
    try:
        if crc32(data[_CHECKSUM:]).to_bytes(_CHECKSUM) != data[:_CHECKSUM]:
            raise msgspec.DecodeError("its checksum is wrong")
        said = _decode(data[_CHECKSUM:])
        if len(said) != last - first + 1:
            raise msgspec.DecodeError("the number of its records is wrong")
    except msgspec.DecodeError:
        return [lost(number) for number in range(first, last + 1)]
    return [
        StoredRecord(number, one.epoch, one.time, LogEntry(one.origin, one.frame, one.principal, one.client))
        for number, one in enumerate(said, first)
    ]


def lost(number: int) -> StoredRecord:
    """A marker in place of an unreadable record."""
    return StoredRecord(number, 0, 0.0, LogEntry("gateway", b""), is_whole=False)


def portions(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    """The records in groups that each fit into a message."""
    start = size = 0
    for place, record in enumerate(records):
        size += len(record.entry.frame)
        if size > LONGEST and place > start:
            yield records[start:place]
            start, size = place, len(record.entry.frame)
    if records:
        yield records[start:]
