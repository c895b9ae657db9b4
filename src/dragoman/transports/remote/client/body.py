"""Read the body of an answer as it arrives: events, or messages as JSON, compressed or not.

One reader serves every form of HTTP: it obeys Content-Type and Content-Encoding, keeps at most one message, and
gives up a body that continues without any content.
"""

import codecs
import contextlib
import zlib
from collections.abc import Callable

import msgspec

from ....framing import Bounded, Oversize
from ..limits import EARNED, FLOODED, Allowance, PeerPace, UnfinishedMessages
from ..routing import head_of
from ..sse import Event, EventReader
from .exchange import ResponseHead

EVENTS = "text/event-stream"
JSON_TYPE = "application/json"
MAX_UNPACKED = 32 * 1024 * 1024  # bytes to which one read of a compressed body may expand
MAX_PACKED = 16  # compressed members in one read
LONGEST = 2  # times the limit: bytes of one message after which it is given up
SHOWN = 8 * 1024  # bytes of a body without a message that an error quotes


class UnreadableBody(ConnectionResetError):
    """A body that cannot be read: its compression is unknown, or it is too large when expanded."""


class Unpacker:
    """Undoes the Content-Encoding of an answer."""

    def __init__(self, encoding: str) -> None:
        self._bits = 0
        match encoding.strip().lower():
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                self._bits = 31
            case "deflate":
                self._bits = 15
            case other:
                raise UnreadableBody(
                    0, f"its answer is compressed as {other[:40]!r}, which the request did not accept"
                )
        self._zlib = zlib.decompressobj(self._bits) if self._bits else None

    def unpack(self, data: bytes) -> bytes:
        if self._zlib is None:
            return data
        parts: list[bytes] = []
        room = MAX_UNPACKED
        for _ in range(MAX_PACKED):  # there may be several compressed members, one after the other
            if self._zlib.eof:
                self._zlib = zlib.decompressobj(self._bits)
            try:
                parts.append(self._zlib.decompress(data, room))
            except zlib.error as exc:
                raise UnreadableBody(0, f"its answer cannot be decompressed: {exc}") from None
            room -= len(parts[-1])
            if self._zlib.unconsumed_tail or room <= 0:
                raise UnreadableBody(0, "its answer is too large when it is decompressed")
            if not (data := self._zlib.unused_data):
                return b"".join(parts)
        raise UnreadableBody(0, "its answer is compressed in too many parts")


class ResponseBody:
    """Reads one answer; `hear` is called with each complete event, which contains a message.

    `give_up` is called when a message does not end.  `unfinished` counts the bytes of incomplete messages.
    """

    def __init__(
        self,
        limit: int,
        hear: Callable[[list[Event]], None],
        unfinished: UnfinishedMessages,
        give_up: Callable[[], None],
    ) -> None:
        self._limit, self._hear = limit, hear
        self._unpacker: Unpacker | None = None
        self._is_json = False
        self._events: EventReader | None = None
        self._data = Bounded(limit)
        self._whole: bytes | Oversize = b""
        self._unfinished, self._held = unfinished, 0
        self._allowance = Allowance()
        self._pace = PeerPace(give_up)

    def feed(self, reply: ResponseHead, data: bytes) -> None:
        """Read a part of the body; raises UnreadableBody."""
        if self._unpacker is None:
            self._unpacker = Unpacker(reply.get("content-encoding"))
            self._is_json = reply.media_type == JSON_TYPE
            if reply.media_type == EVENTS and reply.is_good:
                self._events = EventReader(self._limit)
        data = self._unpacker.unpack(data)
        if self._events:
            self._feed_events(self._events, data)
        else:
            # blanks are only sent to keep a connection alive
            self._data.add(data if self._data.size else data.lstrip())
        self._weigh(len(data))

    def _feed_events(self, reader: EventReader, data: bytes) -> None:
        idle = reader.idle
        events = reader.feed(data)
        self._allowance.earn(EARNED * len(events))
        if reader.idle > idle and not self._allowance.spend(reader.idle - idle):
            raise UnreadableBody(0, FLOODED)
        if events:
            self._hear(events)

    def _weigh(self, size: int) -> None:
        """Give up an incomplete message that grows too large or too slowly; `size` bytes of it have arrived."""
        begun = self._events.unfinished if self._events else self._data.size
        if begun > LONGEST * self._limit:
            raise UnreadableBody(0, f"it sent {begun} bytes of one message without an end")
        if not self._hold(min(begun, self._limit)):
            raise UnreadableBody(0, "it leaves too many messages unfinished")
        if begun:
            self._pace.go_on(size)
        else:
            self._pace.stop()

    def _hold(self, size: int) -> bool:
        change, self._held = size - self._held, size
        return self._unfinished.change(change)

    def pause(self) -> None:
        """Reading has stopped for now."""
        self._pace.stop()

    def close(self) -> None:
        """Stop for good: nothing more arrives."""
        self._pace.stop()
        self._hold(0)

    def end(self, *, is_good: bool) -> None:
        """The body is complete: read the rest of it, if the answer contains messages."""
        self.close()
        if self._events:
            if events := self._events.feed(b"\n\n"):
                self._hear(events)
            return
        self._whole = self._data.take()
        if is_good and (frames := self._frames()):
            self._hear([Event(frame) for frame in frames])

    @property
    def text(self) -> bytes:
        """The beginning of a complete body that contains no messages."""
        return self._whole.head if isinstance(self._whole, Oversize) else self._whole[:SHOWN]

    @property
    def is_broken(self) -> bool:
        """Whether a complete body that should be JSON is not."""
        if not self._is_json or isinstance(self._whole, Oversize):
            return False
        return not all(map(_is_json, self._whole.splitlines())) and not _is_json(self._whole)

    def _frames(self) -> list[bytes | Oversize]:
        """One message, or several in an array or on lines; nothing for any other body."""
        if isinstance(self._whole, Oversize):
            return [self._whole]
        body = self._whole.removeprefix(codecs.BOM_UTF8).strip()
        if body[:1] == b"[":
            with contextlib.suppress(msgspec.DecodeError):
                return [bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])]
            return []
        if _is_message(body):
            return [body]
        return [line for line in body.splitlines() if _is_message(line)]


def _is_message(data: bytes) -> bool:
    seen = head_of(data)
    return bool(seen.id) or seen.method is not None or (b'"error"' in data and b'"jsonrpc"' in data)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return not data.strip()
    return True
