"""Standard streams as a transport: each frame is a line.

`StdioTransport` runs over any two file descriptors; `claimed_stdio` takes those of this process, so that no other
code in it can write to them.
"""

import asyncio
import contextlib
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from ..errors import ConnectionClosed, LocalProtocolError
from ..foundation.owning import Cleanup
from ..foundation.unix import fcntl
from ..framing import MAX_FRAME, LineFramer, Oversize, join_lines
from . import HIGH_WATER, LOW_WATER, Hear
from .holding import HoldableWire, Holding

PIPE_SIZE = 256 * 1024
READ_SIZE = 120 * 1024  # with asyncio's 256 KiB, malloc maps and unmaps fresh pages for each read
LAST_WORDS = 0.5  # seconds for unsent messages when a transport closes


class StdioTransport(HoldableWire):
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._loop = asyncio.get_running_loop()
        self._framer = LineFramer(limit)
        self._early: list[bytes | Oversize] = []  # arrived before there was a listener
        self._hear: Hear = self._early.extend
        self._ended: Callable[[], None] | None = None
        self._is_over = False
        # done when the peer takes more; None while it takes everything
        self._held_up: asyncio.Future[None] | None = None
        self._unwritten: asyncio.Future[None] = self._loop.create_future()  # done when the writing end is closed
        self._reader: _Reader = _UNOPENED
        self._writer: _Writer = _UNOPENED
        self._holding = Holding(lambda: None, lambda: None, lambda: -1)  # until reading has begun
        self._closing = Cleanup(self._close)

    async def open(self, read_fd: int, write_fd: int) -> None:
        """Take over two descriptors; they are closed here from now on, even if this call is cancelled or fails."""
        with contextlib.ExitStack() as unowned:
            unowned.callback(self._end_writing)
            if _is_socket(read_fd) and os.path.sameopenfile(read_fd, write_fd):
                await self._open_socket(read_fd, write_fd, unowned)
            else:
                await self._open_pipes(read_fd, write_fd, unowned)
            unowned.pop_all()

    async def _open_socket(self, read_fd: int, write_fd: int, unowned: contextlib.ExitStack) -> None:
        """Open one socket for both directions; as a pipe, each arriving byte would look like its end."""
        os.close(write_fd)
        ours = unowned.enter_context(socket.socket(fileno=read_fd))
        both, _ = await self._loop.connect_accepted_socket(lambda: _Duplex(self), ours)
        both.pause_reading()
        both.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._reader = self._writer = both
        self._holding = Holding(both.pause_reading, both.resume_reading, both.get_extra_info("socket").fileno)

    async def _open_pipes(self, read_fd: int, write_fd: int, unowned: contextlib.ExitStack) -> None:
        source = unowned.enter_context(os.fdopen(read_fd, "rb", buffering=0))
        sink = unowned.enter_context(os.fdopen(write_fd, "wb", buffering=0))
        for fd in (read_fd, write_fd):
            _widen(fd)
        if _is_pipe(read_fd):
            reader: _Reader = _PipeReader(source, self)
        else:
            reader = _ReaderThread(source, self)
        unowned.callback(reader.close)
        if _is_pipe(write_fd):
            writer, _ = await self._loop.connect_write_pipe(lambda: _Outgoing(self), sink)
            writer.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
            self._writer = writer
        else:
            self._writer = _FileWriter(sink, self)
        self._reader = reader
        self._holding = Holding(reader.pause_reading, reader.resume_reading, source.fileno)

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended
        if self._early:
            hear(self._early)
        if self._is_over:
            self._loop.call_soon(ended)
        else:
            self._reader.resume_reading()

    def send(self, frames: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(join_lines(frames))

    @property
    def queued(self) -> int:
        return self._writer.get_write_buffer_size()

    async def drain(self) -> None:
        if self._held_up:
            await asyncio.wait([self._held_up])

    async def why_ended(self) -> Exception:
        return ConnectionClosed("the peer hung up")

    async def close(self) -> None:
        """Send the queued frames if the peer still takes them, then close both ends."""
        await self._closing()

    async def _close(self) -> None:
        self._writer.close()
        try:
            await asyncio.wait([self._unwritten], timeout=LAST_WORDS)
        finally:
            if not self._unwritten.done():
                self._writer.abort()
            self._reader.close()
            self.heard_all()
        if isinstance(self._reader, _ReaderThread):
            await self._reader.gone()

    # Called by the two ends

    def heard(self, data: bytes) -> None:
        if frames := self._framer.feed(data):
            self._hear(frames)

    def heard_all(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._holding.stop()
        if frames := self._framer.end():
            self._hear(frames)
        if self._ended:
            self._ended()

    def held_up(self, is_held_up: bool) -> None:
        if is_held_up:
            self._held_up = self._held_up or self._loop.create_future()
        elif self._held_up:
            self._held_up.set_result(None)
            self._held_up = None

    def unheard(self) -> None:
        """The peer no longer reads: read its last messages, then report the end."""
        self._end_writing()
        self.end_soon()

    def _end_writing(self) -> None:
        if not self._unwritten.done():
            self._unwritten.set_result(None)
        self.held_up(False)

    def end_soon(self) -> None:
        self._holding.look()
        self._loop.call_later(LAST_WORDS, self.heard_all)


class _Reader(Protocol):
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class _Writer(Protocol):
    def write(self, data: bytes) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class _Unopened:
    """In place of the two ends of a transport that is not open yet."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return True


_UNOPENED = _Unopened()


class _PipeReader:
    """Reads a pipe as bytes arrive, in portions of a size that we choose."""

    def __init__(self, source: IO[bytes], wire: StdioTransport) -> None:
        self._source, self._wire = source, wire
        self._loop = asyncio.get_running_loop()
        os.set_blocking(source.fileno(), False)

    def resume_reading(self) -> None:
        if not self._source.closed:
            self._loop.add_reader(self._source.fileno(), self._read)

    def pause_reading(self) -> None:
        if not self._source.closed:
            self._loop.remove_reader(self._source.fileno())

    def _read(self) -> None:
        try:
            data = self._source.read(READ_SIZE)
        except OSError:
            data = b""
        if data:
            self._wire.heard(data)
        elif data is not None:  # None means that there was nothing after all
            self.close()
            self._wire.heard_all()

    def close(self) -> None:
        self.pause_reading()
        self._source.close()


class _Outgoing(asyncio.BaseProtocol):
    def __init__(self, wire: StdioTransport) -> None:
        self._wire = wire

    def pause_writing(self) -> None:
        self._wire.held_up(True)

    def resume_writing(self) -> None:
        self._wire.held_up(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.unheard()


class _Duplex(_Outgoing, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self._wire.heard(data)

    def eof_received(self) -> bool:
        self._wire.heard_all()
        return True  # the peer may still read

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.unheard()
        self._wire.heard_all()


class _ReaderThread:
    """Reads in a thread where asyncio cannot wait: regular files, and terminals that must stay in blocking mode."""

    def __init__(self, source: IO[bytes], wire: StdioTransport) -> None:
        self._source, self._wire = source, wire
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()  # set once there is a listener
        self._taken = threading.Event()  # set when the loop has handled the last read
        self._closed = False
        self._gone = asyncio.Event()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the loop may end before the last line
            while self._go.wait() and not self._closed and (data := os.read(self._source.fileno(), 64 * 1024)):
                self._taken.clear()
                self._loop.call_soon_threadsafe(self._hand_over, data)
                self._taken.wait()  # otherwise a whole file would be in memory before its first line is answered
        self._source.close()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self._gone.set()
        self._wire.heard_all()

    async def gone(self) -> None:
        """Wait until the descriptor is closed, but not for a read in progress, for example on a terminal."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._gone.wait()

    def _hand_over(self, data: bytes) -> None:
        if not self._closed:
            self._wire.heard(data)
        self._taken.set()

    def pause_reading(self) -> None:
        self._go.clear()

    def resume_reading(self) -> None:
        self._go.set()

    def close(self) -> None:
        self._closed = True
        self._taken.set()
        self._go.set()


class _FileWriter:
    """Writes to a regular file or a terminal, which never block for long."""

    def __init__(self, sink: IO[bytes], wire: StdioTransport) -> None:
        self._sink, self._wire = sink, wire
        self._closed = False

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._sink.fileno(), view) :]
        except OSError:
            self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._sink.close()
            self._wire.unheard()

    def abort(self) -> None:
        self.close()


def _widen(fd: int) -> None:
    """Enlarge a pipe's buffer where the system allows, for fewer wake-ups per large message."""
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


def _is_socket(fd: int) -> bool:
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


_claimed = False


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Reserve this process's stdin and stdout for the transport; returns their private descriptors.

    Meanwhile fd 0 is empty and fd 1 is stderr, for Python, for C code and for children, so that a stray print goes
    to the log.  Where stderr is the same pipe as the transport's, stray output is dropped instead.
    Raises ConnectionClosed where this process was started without a stdin or stdout.
    """
    global _claimed
    if _claimed:
        raise LocalProtocolError("stdin and stdout carry another connection already")
    _check_streams()
    _claimed = True
    if sys.stdout is not None:
        sys.stdout.flush()
    saved = [os.dup(fd) for fd in (0, 1, 2)]  # the duplicates are private to this process
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, 0)
        if not os.isatty(1) and os.path.sameopenfile(1, 2):
            os.dup2(null, 1)
            os.dup2(null, 2)
        else:
            os.dup2(2, 1)
        yield os.dup(saved[0]), os.dup(saved[1])
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced by None
            sys.stdout.flush()
        _flush_c_output()
        for fd, copy in enumerate(saved):
            os.set_blocking(copy, True)
            os.dup2(copy, fd)
            os.close(copy)
        os.close(null)
        _claimed = False


def _check_streams() -> None:
    """Check that stdin and stdout are open; if stderr is closed, keep its number from the next opened file."""
    streams = {"stdin": sys.__stdin__, "stdout": sys.__stdout__}
    closed = [name for fd, (name, stream) in enumerate(streams.items()) if stream is None or not _is_open(fd)]
    if closed:
        verb = "is" if len(closed) == 1 else "are"
        raise ConnectionClosed(
            f"{' and '.join(closed)} {verb} closed. Start this program with pipes, as editors do"
        )
    if not _is_open(2):
        null = os.open(os.devnull, os.O_RDWR)
        if null != 2:
            os.dup2(null, 2)
            os.close(null)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _flush_c_output() -> None:
    """Flush the buffer of C code, so that its content is not printed after stdout is restored."""
    import ctypes

    ctypes.CDLL(None).fflush(None)
