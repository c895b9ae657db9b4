"""Where a session's updates wait for whoever reads them: in memory first, then on disk, always in order.

One slow reader may not hold up the wire its neighbours share, nor fill the memory: what it leaves lying is kept in
a nameless temporary file.  Only when that is full too does the wire have to wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import IO, Any

from msgspec import Struct

from . import codec
from .schema import SessionNotification

MEMORY = 4 * 1024 * 1024
COUNT = 16 * 1024
DISK = 1024 * 1024 * 1024
BATCH = 1024 * 1024


class _Frame(Struct):
    params: SessionNotification


class Inbox:
    def __init__(
        self, hold: Callable[[], None], resume: Callable[[], None], *, memory: int = MEMORY, disk: int = DISK
    ) -> None:
        self._hold, self._resume = hold, resume  # what to do when there is no room left, and when there is
        self._memory, self._disk = memory, disk
        self._items: deque[tuple[Any, int]] = deque()
        self._size = 0  # bytes of the frames those items came in
        self._spool: _Spool | None = None
        self._holding = False
        self.is_closed = False
        self._waiters: list[asyncio.Future[None]] = []

    def widen(self, hold: Callable[[], None], resume: Callable[[], None]) -> None:
        """Give an inbox that was kept small the full room: its session turned out to be somebody's."""
        self._hold, self._resume, self._memory, self._disk = hold, resume, MEMORY, DISK

    def put(self, item: Any, frame: bytes) -> None:
        """Add an update, and the frame it came in."""
        size = len(frame)
        if self._spool is None and self._size + size <= self._memory and len(self._items) < COUNT:
            self._items.append((item, size))
            self._size += size
        else:
            self._spill(frame, None)
        if self._waiters:
            self.wake()

    def put_mark(self, mark: Any) -> None:
        """Add something that is no update, and never goes to disk."""
        if self._spool is None:
            self._items.append((mark, 0))
        else:
            self._spill(b"", mark)
        if self._waiters:
            self.wake()

    def pop(self) -> Any | None:
        """The next item, None when there is none."""
        if not self._items and self._spool is not None:
            self._refill()
        if not self._items:
            return None
        item, size = self._items.popleft()
        self._size -= size
        return item

    async def wait(self) -> None:
        """Until something has been put in; any number may wait."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def wake(self) -> None:
        """Have everybody who waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """Throw away what is left; nothing comes any more."""
        self.is_closed = True
        self._items.clear()
        self._size = 0
        if self._spool is not None:
            self._spool.file.close()
            self._spool = None
        self._release()
        self.wake()

    def _spill(self, frame: bytes, mark: Any) -> None:
        if self._spool is None:
            self._spool = _Spool()
        self._spool.append(frame, mark)
        if self._spool.size > self._disk and not self._holding:
            self._holding = True
            self._hold()

    def _refill(self) -> None:
        assert self._spool is not None
        for frame, mark in self._spool.take(BATCH):
            if not frame:
                self._items.append((mark, 0))
                continue
            self._items.append((_read_update(frame), len(frame)))
            self._size += len(frame)
        if self._spool.size == 0:
            self._spool.file.close()
            self._spool = None
        if self._spool is None or self._spool.size < self._disk // 2:
            self._release()

    def _release(self) -> None:
        if self._holding:
            self._holding = False
            self._resume()


def _read_update(frame: bytes) -> Any:
    try:
        return codec.decode(frame, _Frame).params.update
    except codec.Malformed:  # it was mended when it came, but kept as it was
        return codec.decode(codec.mend(frame), _Frame).params.update


class _Spool:
    """Frames on disk, first in first out."""

    def __init__(self) -> None:
        import tempfile  # rarely needed, and slow to import

        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="dragoman-", buffering=0)  # noqa: SIM115
        self.size = 0  # bytes not yet taken, and marks
        self._marks: deque[Any] = deque()
        self._written = bytearray()  # not yet in the file
        self._read_at = self._write_at = 0

    def append(self, frame: bytes, mark: Any) -> None:
        if not frame:
            self._marks.append(mark)
        self._written += len(frame).to_bytes(4, "big")
        self._written += frame
        self.size += len(frame) + 4
        if len(self._written) > BATCH:
            self._flush()

    def take(self, count: int) -> "list[tuple[bytes, Any]]":
        """About `count` bytes of frames from the front, at least one frame."""
        self._flush()
        self.file.seek(self._read_at)
        data = _read(self.file, min(count, self._write_at - self._read_at))
        first = 4 + int.from_bytes(data[:4], "big")
        data += _read(self.file, first - len(data)) if first > len(data) else b""
        taken: list[tuple[bytes, Any]] = []
        at = 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if at + 4 + size > len(data):
                break
            frame = data[at + 4 : at + 4 + size]
            taken.append((frame, None if frame else self._marks.popleft()))
            at += 4 + size
        self._read_at += at
        self.size -= at
        return taken

    def _flush(self) -> None:
        self.file.seek(self._write_at)
        view = memoryview(bytes(self._written))
        while view:
            view = view[self.file.write(view) :]
        self._write_at += len(self._written)
        self._written.clear()


def _read(file: IO[bytes], size: int) -> bytes:
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
