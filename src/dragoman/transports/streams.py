"""A pair of asyncio streams as a transport: a Unix socket, TLS, any reader and writer."""

import asyncio
import contextlib
from collections.abc import Callable

from ..errors import ConnectionClosed, brief
from ..foundation.owning import Cleanup
from ..framing import MAX_FRAME, LineFramer, join_lines
from . import HIGH_WATER, LOW_WATER, Hear
from .holding import HoldableWire, Holding
from .stdio import LAST_WORDS

READ_SIZE = 64 * 1024
LOOK_AHEAD = 1024 * 1024  # bytes that a pipe can hold; a peer's end is within as many


class StreamsTransport(HoldableWire):
    """A frame per line over a `StreamReader` and a `StreamWriter`; `streams` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        self._reader, self._writer = reader, writer
        self._framer = LineFramer(limit)
        self._why: Exception = ConnectionClosed("the peer hung up")
        self._reading: asyncio.Task[None] | None = None
        self._released = asyncio.Event()  # clear while reading is held
        self._released.set()
        self._ahead = 0  # bytes that may be read while reading is held
        self._unwritten = asyncio.Event()  # set when the writing end is closed
        self._closing = Cleanup(self._close)
        self._is_piped = _is_pipe(writer)
        look_ahead = self._look_ahead if self._is_piped else None
        self._holding = Holding(self._released.clear, self._released.set, self._fileno, look_ahead)
        writer.transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        if self._is_piped:
            writer.transport.set_protocol(_WatchedPipe(writer.transport.get_protocol(), self._unheard))

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._reading = asyncio.create_task(self._read(hear), name="streams")
        self._reading.add_done_callback(lambda _: self._end(hear, ended))
        if self._unwritten.is_set():
            self._unheard()

    def _fileno(self) -> int:
        """The descriptor under both streams; of two pipes, the one for writing."""
        name = self._writer.get_extra_info
        return int((name("pipe") or name("socket")).fileno())

    async def _read(self, hear: Hear) -> None:
        try:
            while data := await self._reader.read(READ_SIZE):
                await self._released.wait()
                if self._holding.is_held:
                    self._ahead -= len(data)
                    if self._ahead <= 0:
                        self._released.clear()
                if frames := self._framer.feed(data):
                    hear(frames)
        except Exception as exc:  # for example, other code reads from the stream as well
            self._why = ConnectionClosed(f"the connection broke: {exc}")

    def _end(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._holding.stop()
        if frames := self._framer.end():
            hear(frames)
        ended()

    def _look_ahead(self) -> None:
        self._ahead = LOOK_AHEAD
        self._released.set()

    def _unheard(self) -> None:
        """The peer no longer reads: read its last messages, then report the end."""
        self._unwritten.set()
        if self._reading:
            self._look_ahead()
            asyncio.get_running_loop().call_later(LAST_WORDS, self._reading.cancel)

    def send(self, frames: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(join_lines(frames))

    @property
    def queued(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        with contextlib.suppress(OSError):  # the peer has disconnected, which `ended` reports
            await self._writer.drain()

    async def why_ended(self) -> Exception:
        return self._why

    async def close(self) -> None:
        """Send the queued frames if the peer still takes them, then close both streams."""
        await self._closing()

    async def _close(self) -> None:
        self._writer.close()
        try:
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(LAST_WORDS):
                    await (self._unwritten.wait() if self._is_piped else self._writer.wait_closed())
        finally:
            self._holding.stop()
            if not self._unwritten.is_set():  # a closed pipe cannot be aborted
                self._writer.transport.abort()
            if self._reading:
                self._reading.cancel()
        if self._reading:
            await asyncio.wait([self._reading])


def _is_pipe(writer: asyncio.StreamWriter) -> bool:
    """Whether a writer is one of two pipes; uvloop presents a process's pipes as sockets, which receive nothing."""
    transport = writer.transport
    return transport.get_extra_info("pipe") is not None or not hasattr(transport.get_protocol(), "data_received")


class _WatchedPipe(asyncio.BaseProtocol):
    """Watches a pipe for its protocol, which need not report that the pipe was closed."""

    def __init__(self, protocol: asyncio.BaseProtocol, gone: Callable[[], None]) -> None:
        self._protocol, self._gone = protocol, gone

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)
        self._gone()


def streams(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limit: int = MAX_FRAME
) -> StreamsTransport:
    """Make a transport of two asyncio streams, for `connect` and `serve_on`; closing it closes both.

    A frame is a line of at most `limit` bytes.  Of two pipes, only the one for writing can be closed.
    """
    if not (hasattr(reader, "read") and hasattr(writer, "transport")):
        given = brief(f"{reader!r}, {writer!r}")
        raise TypeError(f"streams takes an asyncio.StreamReader and then a StreamWriter, and not {given}")
    return StreamsTransport(reader, writer, limit)
