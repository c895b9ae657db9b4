"""Bytes -> frames, one per line, in bounded memory; frames -> bytes.

An oversize line is thrown away as it arrives and reported as `Oversize`; the stream goes on after it.
"""

from collections.abc import Iterable

from msgspec import Struct

MAX_FRAME = 16 * 1024 * 1024  # rust-sdk and hypercorn: 16 MiB; typescript-sdk: 32 MiB
HEAD = 4 * 1024  # how much of an oversize line is kept, to find its id


class Oversize(Struct, frozen=True):
    """A line longer than the limit: its first bytes and its length."""

    head: bytes
    size: int


class LineFramer:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []  # of the line that has no end yet; the first two hold `HEAD` bytes
        self._crumbs = bytearray()  # what came after them in reads so small that an object for each would be dear
        self._size = 0  # of that line, also of what was thrown away

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes; empty ones are nothing."""
        first, *lines = data.split(b"\n")
        if not lines:
            self._keep(first)
            return []
        rest = lines.pop()
        if self._size:
            self._keep(first)
            frames = [self._finish()]
        else:
            frames = [self._whole(first)] if first else []
        if len(data) <= self.limit:
            frames += filter(None, lines)
        else:
            frames += map(self._whole, filter(None, lines))
        self._keep(rest)
        return frames

    def end(self) -> list[bytes | Oversize]:
        """The last line, when the stream ended without its newline."""
        return [self._finish()] if self._size else []

    def _whole(self, line: bytes) -> bytes | Oversize:
        return line if len(line) <= self.limit else Oversize(line[:HEAD], len(line))

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self.limit:
            first: Iterable[bytes | bytearray] = (*self._pieces[:2], self._crumbs, part)
            self._pieces, self._crumbs = [b"".join(piece[:HEAD] for piece in first)[:HEAD]], bytearray()
        elif len(part) < HEAD:
            self._crumbs += part
        else:
            self._pieces += filter(None, (bytes(self._crumbs), part))
            self._crumbs.clear()

    def _finish(self) -> bytes | Oversize:
        line, size = b"".join((*self._pieces, self._crumbs)), self._size
        self._pieces, self._crumbs, self._size = [], bytearray(), 0
        return line if size <= self.limit else Oversize(line, size)


def join_lines(frames: Iterable[bytes]) -> bytes:
    """Frames as they go over a byte stream, each with its newline."""
    return b"\n".join([*frames, b""])
