"""Server-sent events: bytes -> events, bounded, and frames -> bytes.

Lines may end in LF, CRLF or CR; an event may have several `data` lines; a character may be cut in two by whatever
carries it, so everything here is bytes.  An event larger than the limit is thrown away as it arrives.
"""

import codecs
from collections.abc import Iterable

from msgspec import Struct

from ..framing import HEAD, MAX_FRAME, Oversize

KEEP_ALIVE = b":\n\n"
_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True):
    """One event: what it says, the id it was given, and its kind if it has a name."""

    data: bytes | Oversize
    id: bytes | None = None
    kind: bytes = b"message"


def write_events(frames: Iterable[bytes], first: int) -> bytes:
    """Frames as events, numbered from `first`."""
    return b"".join([b"id: %d\ndata: %b\n\n" % (number, frame) for number, frame in enumerate(frames, first)])


def in_ascii(frame: bytes) -> bytes:
    """The same JSON without a character that could be cut in two: some clients decode each chunk by itself."""
    return frame if frame.isascii() else frame.decode(errors="replace").encode("ascii", "dragoman.json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What no ASCII can say as JSON's escapes, which is UTF-16."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end


codecs.register_error("dragoman.json", _escaped)


class EventReader:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._line = bytearray()  # what there is of the line that has no end yet
        self._line_size = 0  # of that line, also of what was thrown away
        self._after_cr = False  # a newline right after a carriage return is nothing
        self._begun = False
        # Of the event that has no end yet:
        self._data: list[bytes] = []
        self._has_data = False
        self._size = 0
        self._id: bytes | None = None
        self._kind = b"message"

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        if not self._begun:
            data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event] = []
        first, *lines = data.split(b"\n")
        self._keep(first)
        if not lines:
            return events
        rest = lines.pop()
        self._end_line(bytes(self._line), self._line_size, events)
        for line in lines:
            self._end_line(line, len(line), events)
        self._line, self._line_size = bytearray(), 0
        self._keep(rest)
        return events

    def _without_bom(self, data: bytes) -> bytes:
        """The first bytes may be a mark that says no more than that this is UTF-8."""
        data = bytes(self._line) + data
        self._line, self._line_size = bytearray(), 0
        if len(data) < len(_BOM) and _BOM.startswith(data):
            return data  # too little to tell; it will be put in front of what comes
        self._begun = True
        return data.removeprefix(_BOM)

    def _keep(self, part: bytes) -> None:
        self._line_size += len(part)
        if self._line_size <= self._limit + HEAD:  # a field's name stands in front of its value
            self._line += part
        elif len(self._line) > HEAD:
            del self._line[HEAD:]

    def _end_line(self, line: bytes, size: int, events: list[Event]) -> None:
        if not line:
            if self._has_data:
                events.append(Event(self._finish(), self._id, self._kind))
            self._forget_event()
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._add(value, size - (len(line) - len(value)))
        elif line.startswith(b"id:"):
            self._id = line[3:].removeprefix(b" ")
        elif line.startswith(b"event:"):
            self._kind = line[6:].removeprefix(b" ")
        elif line == b"data":
            self._add(b"", 0)

    def _add(self, value: bytes, size: int) -> None:
        if self._has_data:
            self._size += 1 + size
            value = b"\n" + value
        else:
            self._size = size
        self._has_data = True
        if self._size <= self._limit:
            self._data.append(value)
        elif sum(map(len, self._data)) < HEAD:
            self._data.append(value[:HEAD])

    def _finish(self) -> bytes | Oversize:
        data = self._data[0] if len(self._data) == 1 else b"".join(self._data)
        return data if self._size <= self._limit else Oversize(data[:HEAD], self._size)

    def _forget_event(self) -> None:
        self._data = []
        self._has_data = False
        self._size = 0
        self._id = None
        self._kind = b"message"
