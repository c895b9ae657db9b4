"""A pair of asyncio streams as a wire: a Unix socket, TLS, whatever gives a reader and a writer."""

import asyncio
import contextlib
from collections.abc import Callable

from ..errors import ConnectionClosed, brief
from ..framing import MAX_FRAME, LineFramer, join_lines
from . import HIGH_WATER, LOW_WATER, Hear
from .holding import Holding
from .stdio import LAST_WORDS

READ_SIZE = 64 * 1024


class StreamsTransport:
    """One frame a line over a `StreamReader` and a `StreamWriter`; `streams` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        self._reader, self._writer = reader, writer
        self._framer = LineFramer(limit)
        self._why: Exception = ConnectionClosed("the peer hung up")
        self._reading: asyncio.Task[None] | None = None
        self._released = asyncio.Event()  # clear while reading is held
        self._released.set()
        self._holding = Holding(self._released.clear, self._released.set, self._fileno)
        writer.transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._reading = asyncio.create_task(self._read(hear), name="streams")
        self._reading.add_done_callback(lambda _: ended())

    def _fileno(self) -> int:
        """What both streams run over; of two pipes the one that is written to, the only one that a stream names."""
        name = self._writer.get_extra_info
        return int((name("socket") or name("pipe")).fileno())

    async def _read(self, hear: Hear) -> None:
        try:
            while data := await self._reader.read(READ_SIZE):
                await self._released.wait()
                if frames := self._framer.feed(data):
                    hear(frames)
        except OSError as exc:
            self._why = ConnectionClosed(f"the connection broke: {exc}")
        self._holding.stop()
        if frames := self._framer.end():
            hear(frames)

    def hold(self) -> None:
        self._holding.hold()

    def resume(self) -> None:
        self._holding.resume()

    def send(self, frames: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(join_lines(frames))

    @property
    def queued(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        with contextlib.suppress(OSError):  # the peer is gone, and `ended` says so
            await self._writer.drain()

    async def why_ended(self) -> Exception:
        return self._why

    async def close(self) -> None:
        """Send what is queued if the peer still takes it, then close both streams."""
        self._writer.close()
        try:
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._writer.wait_closed()
        finally:
            self._holding.stop()
            self._writer.transport.abort()
            if self._reading:
                self._reading.cancel()
        if self._reading:
            await asyncio.wait([self._reading])


def streams(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limit: int = MAX_FRAME
) -> StreamsTransport:
    """A wire over two streams, for `connect` and `serve_on`; both are closed with it.

    A frame is a line of at most `limit` bytes.
    """
    if not (hasattr(reader, "read") and hasattr(writer, "transport")):
        given = brief(f"{reader!r}, {writer!r}")
        raise TypeError(f"streams takes an asyncio.StreamReader and then a StreamWriter, and not {given}")
    return StreamsTransport(reader, writer, limit)
