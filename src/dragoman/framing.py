"""Bytes -> frames, one per line, in bounded memory and of bounded depth; frames -> bytes.

An oversize line is thrown away as it arrives and reported as `Oversize`; the stream goes on after it.  A frame is
one line wherever it came from: transports whose messages may have line breaks take them out with `one_line`.
"""

import itertools
from array import array
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

MAX_FRAME = 16 * 1024 * 1024  # rust-sdk and hypercorn: 16 MiB; typescript-sdk: 32 MiB
MAX_DEPTH = 128  # serde_json stops at 128, pydantic at 200; no real message comes near
SHALLOW = 2 * MAX_DEPTH  # bytes; a shorter frame has no room for more levels and their ends
COUNTABLE = 4096  # bytes; counting brackets pays in short frames only
HEAD = 4 * 1024  # how much of either end of an oversize line is kept, to find its id

_MAX_ITEMS = 1_000_000  # of which a list is made; long texts have commas, too, and to count brackets takes longer
_COUNTED = 64 * 1024  # bytes at a time
_PEELED = 6  # levels; more than messages of the protocol have around a long text
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
_NO_STEPS = bytes(set(range(256)) - set(b"[]{}"))
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])


class Oversize(Struct, frozen=True):
    """A line longer than the limit: its first bytes, its length and its last bytes."""

    head: bytes
    size: int
    tail: bytes = b""


class Unfinished(bytes):
    """A line at which the stream ended: whoever wrote it may have died in the middle of it."""


class Bounded:
    """Bytes that arrive in parts: all of them up to a limit, and beyond it both ends."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self.size = 0  # also of what was thrown away
        self._pieces: list[bytes] = []  # the first two hold `HEAD` bytes
        self._crumbs = bytearray()  # what came after them in parts so small that an object for each would be dear
        self._room = 0  # bytes that the head of what is too long still lacks

    def add(self, part: bytes) -> None:
        was_oversize = self.size > self.limit
        self.size += len(part)
        if was_oversize:
            self._keep_last(part)
        elif self.size > self.limit:
            self._keep_ends(part)
        elif len(part) < HEAD:
            self._crumbs += part
        else:
            self._pieces += filter(None, (bytes(self._crumbs), part))
            self._crumbs.clear()

    def add_ends(self, ends: Oversize) -> None:
        """Add what is itself beyond the limit, and of which only both ends are there."""
        self.add(ends.head)
        if self.size <= self.limit:
            self._keep_ends(b"")
        self._room = 0  # what comes next does not follow the head
        self.size += ends.size - len(ends.head)
        self._keep_last(ends.tail)

    def _keep_ends(self, part: bytes) -> None:
        """From now on keep only the first bytes, the one piece, and the last, the crumbs."""
        head = (*self._pieces[:2], bytes(self._crumbs[:HEAD]), part)
        tail = (*self._pieces[-1:], bytes(self._crumbs[-HEAD:]), part)
        self._pieces = [b"".join(piece[:HEAD] for piece in head)[:HEAD]]
        self._crumbs = bytearray(b"".join(piece[-HEAD:] for piece in tail))
        self._room = HEAD - len(self._pieces[0])

    def _keep_last(self, part: bytes) -> None:
        if self._room > 0:
            self._pieces[0] += part[: self._room]
            self._room -= len(part)
        self._crumbs += part[-HEAD:]
        if len(self._crumbs) > 4 * HEAD:
            del self._crumbs[:-HEAD]

    def take(self) -> bytes | Oversize:
        """What there is; nothing is left."""
        if self.size > self.limit:
            whole: bytes | Oversize = Oversize(self._pieces[0], self.size, bytes(self._crumbs[-HEAD:]))
        else:
            whole = b"".join((*self._pieces, self._crumbs))
        self._pieces, self._crumbs, self.size = [], bytearray(), 0
        return whole


class LineFramer:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self._line = Bounded(limit)  # the one that has no end yet

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes; empty ones are nothing."""
        first, *lines = data.split(b"\n")
        if not lines:
            self._line.add(first)
            return []
        rest = lines.pop()
        if self._line.size:
            self._line.add(first)
            frames = [self._line.take()]
        else:
            frames = [self._whole(first)] if first else []
        if len(data) <= self.limit:
            frames += filter(None, lines)
        else:
            frames += map(self._whole, filter(None, lines))
        self._line.add(rest)
        return frames

    def end(self) -> list[bytes | Oversize]:
        """The last line, when the stream ended without its newline."""
        if not self._line.size:
            return []
        line = self._line.take()
        return [line if isinstance(line, Oversize) else Unfinished(line)]

    def _whole(self, line: bytes) -> bytes | Oversize:
        return line if len(line) <= self.limit else Oversize(line[:HEAD], len(line), line[-HEAD:])


_NO_BREAKS = bytes.maketrans(b"\r\n", b"\v\v")  # control characters that JSON has no use for


def one_line(frame: bytes) -> bytes:
    """A frame without line breaks: the same JSON, or what was no JSON and is none now."""
    if b"\n" not in frame and b"\r" not in frame:
        return frame
    try:
        return msgspec.json.format(frame, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return frame.strip().translate(_NO_BREAKS)


def in_lines(texts: Iterable[bytes]) -> list[bytes]:
    """A peer's messages, each on one line; of one that is no JSON its lines, if each of them is an object."""
    frames: list[bytes] = []
    for text in texts:
        if b"\n" not in text and b"\r" not in text:
            frames.append(text)
            continue
        whole, lines = one_line(text), [line.strip() for line in text.splitlines() if line.strip()]
        are_objects = all(line[:1] == b"{" and line[-1:] == b"}" for line in lines)
        frames += lines if len(lines) > 1 and are_objects and b"\v" in whole else [whole]
    return frames


def join_lines(frames: Iterable[bytes]) -> bytes:
    """Frames as they go over a byte stream, each with its newline."""
    lines = [*frames, b""]
    data = b"\n".join(lines)
    if data.count(b"\n") >= len(lines):  # somebody handed us JSON as it was written elsewhere
        return b"\n".join(map(one_line, lines))
    return data


# The guard before any parser


class TooDeep(msgspec.DecodeError):
    """Good JSON, perhaps, but nobody will find out."""


def check(frame: bytes) -> None:
    """Refuse what must not be read any further: too deep a nesting, bytes that are not UTF-8."""
    if len(frame) > SHALLOW and (len(frame) >= COUNTABLE or frame.count(b"[") + frame.count(b"{") > MAX_DEPTH):
        check_depth(Raw(frame.lstrip()))
    check_text(frame)


def check_text(frame: bytes) -> None:
    """Refuse bytes that are not UTF-8."""
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError as exc:
            raise msgspec.DecodeError(f"not UTF-8 at byte {exc.start}") from None


def check_depth(whole: Raw, outside: int = 0) -> None:
    """Refuse a value that has too many levels, with those outside of it.

    The outer ones are peeled off: msgspec skips what is inside, at memory speed.  What is left is counted.
    """
    level, peeled = [whole], _PEELED
    try:
        for depth in range(outside, peeled):
            room = 2 * (MAX_DEPTH - depth)  # what is shorter cannot hold the levels that are left
            level = [inner for value in level for inner in _inside(value, room) if len(inner) >= room]
            if not level:
                return
    except (RecursionError, _Hidden):
        level, peeled = [whole], outside
    for value in level:
        _count_depth(bytes(memoryview(value)[:COUNTABLE]), peeled)  # mostly enough to know
        _count_depth(bytes(value), peeled)


class _Hidden(Exception):
    """A member that may be there twice, where the parser gives the last one only; or too many to be looked at."""


def _inside(value: Raw, room: int) -> Iterable[Raw]:
    match bytes(memoryview(value)[:1]):
        case b"{":
            _check_count(value, b":")
            members = _OBJECT.decode(value)
            if len(value) - sum(len(name) + len(inner) + 4 for name, inner in members.items()) >= room:
                raise _Hidden
            return members.values()
        case b"[":
            _check_count(value, b",")
            return _ARRAY.decode(value)
    return ()


def _check_count(value: Raw, separator: bytes) -> None:
    """A list of that many values would take more memory than they do themselves."""
    if len(value) > _MAX_ITEMS and bytes(value).count(separator) > _MAX_ITEMS:
        raise _Hidden


def _count_depth(text: bytes, depth: int) -> None:
    """Count brackets outside of strings; only what is good JSON is counted right, and the rest nobody reads."""
    text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    too_many, is_inside = b"\1" * (MAX_DEPTH - depth + 1), 0
    for start in range(0, len(text), _COUNTED):
        pieces = text[start : start + _COUNTED].split(b'"')
        brackets = b"".join(pieces[is_inside::2]).translate(_STEPS, _NO_STEPS)  # one byte each: 1 in, -1 out
        is_inside = (is_inside + len(pieces) - 1) % 2  # the rest of a string, if the last piece was in one
        steps = array("b", brackets)
        if too_many in brackets or max(itertools.accumulate(steps, initial=depth)) > MAX_DEPTH:
            raise TooDeep(f"nested deeper than {MAX_DEPTH} levels")
        depth += sum(steps)
