"""Server-sent events: bytes -> events, bounded, and frames -> bytes.

Lines may end in LF, CRLF or CR, an event may have several `data` lines, and a read may end inside a character, so
everything here is bytes.  Of an event larger than the limit, the beginning and the end are kept.
"""

import codecs
from collections.abc import Iterable

from msgspec import Struct

from ...framing import HEAD, MAX_FRAME, Bounded, Oversize, one_line

KEEP_ALIVE = b":\n\n"
END = b"end"  # the kind of the last event of a connection that resumes
LINE = 16  # bytes counted for a line besides its own, since a short line is as much work as a long one
_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True):
    """An event: its data, its id, and its kind if it has one."""

    data: bytes | Oversize
    id: bytes | None = None
    kind: bytes = b"message"


def write_events(frames: Iterable[bytes], first: int) -> bytes:
    """Frames as events, numbered from `first`."""
    return b"".join(
        [b"id: %d\ndata: %b\n\n" % (number, one_line(frame)) for number, frame in enumerate(frames, first)]
    )


def write_end(why: str) -> bytes:
    """The last event, which ends the connection and not just one of its streams."""
    return b"event: %b\ndata: %b\n\n" % (END, one_line(why.encode()))


def in_ascii(frame: bytes) -> bytes:
    """The same JSON in ASCII, so that no character can be divided: some clients decode each chunk by itself."""
    return frame if frame.isascii() else frame.decode(errors="replace").encode("ascii", "dragoman.json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """The JSON escapes, in UTF-16, of a character outside ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end


codecs.register_error("dragoman.json", _escaped)


class EventReader:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._line = Bounded(limit + HEAD)  # the incomplete line
        self._after_cr = False  # a line feed right after a carriage return is ignored
        self._begun = False
        # Of the incomplete event:
        self._data = Bounded(limit)
        self._has_data = False
        self._extra = 0  # the overhead counted for each line
        self._id: bytes | None = None
        self._kind = b"message"
        self.idle = 0  # lines so far without effect: comments, unknown fields, events without data

    @property
    def unfinished(self) -> int:
        """The size of the incomplete event, in bytes or more."""
        return self._data.size + self._extra + self._line.size

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
        self._line.add(first)
        if not lines:
            return events
        rest = lines.pop()
        self._end_line(self._line.take(), events)
        for line in lines:
            self._end_line(line, events)
        self._line.add(rest)
        return events

    def _without_bom(self, data: bytes) -> bytes:
        """Remove a byte order mark from the first bytes."""
        seen = self._line.take()
        assert isinstance(seen, bytes)
        data = seen + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            return data  # too few bytes to decide; the next ones are appended
        self._begun = True
        return data.removeprefix(_BOM)

    def _end_line(self, line: bytes | Oversize, events: list[Event]) -> None:
        if not line:
            if self._has_data:
                events.append(Event(self._data.take(), self._id, self._kind))
            else:
                self.idle += 1
            self._forget_event()
        elif isinstance(line, Oversize):
            self._end_long_line(line)
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            if self._has_data:
                self._data.add(b"\n" + value)
                self._extra += LINE
            else:  # usually there is one
                self._data.add(value)
                self._has_data = True
        elif line.startswith(b"id:"):
            self._id = line[3:].removeprefix(b" ")
        elif line.startswith(b"event:"):
            self._kind = line[6:].removeprefix(b" ")
        elif line == b"data":
            self._end_line(b"data:", events)
        else:
            self.idle += 1

    def _end_long_line(self, line: Oversize) -> None:
        """End a line that is longer than any event; only data counts, since no id or kind is as long."""
        if line.head.startswith(b"data:"):
            if self._has_data:
                self._data.add(b"\n")
            self._has_data = True
            value = line.head[5:].removeprefix(b" ")
            self._data.add_ends(Oversize(value, line.size - (len(line.head) - len(value)), line.tail))

    def _forget_event(self) -> None:
        self._has_data = False
        self._extra = 0
        self._id = None
        self._kind = b"message"
