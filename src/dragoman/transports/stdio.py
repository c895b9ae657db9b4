"""Standard streams as a wire: one frame a line.

`StdioTransport` runs over any two file descriptors; `claimed_stdio` takes this process's own, so that nothing
else in it can touch the wire.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from ..errors import ConnectionClosed, LocalProtocolError
from ..framing import MAX_FRAME, LineFramer, Oversize, join_lines
from . import HIGH_WATER, LOW_WATER, Hear

PIPE_SIZE = 256 * 1024
READ_SIZE = 120 * 1024  # with asyncio's 256 KiB malloc maps and unmaps fresh pages for every single read
LAST_WORDS = 0.5  # seconds for what is still on its way when a wire closes


class StdioTransport:
    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._loop = asyncio.get_running_loop()
        self._framer = LineFramer(limit)
        self._early: list[bytes | Oversize] = []  # arrived before anybody listened
        self._hear: Hear = self._early.extend
        self._ended: Callable[[], None] | None = None
        self._is_over = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._unwritten = asyncio.Event()  # set when the writing end is gone
        self._held = False
        self._reader: _Reader
        self._writer: _Writer

    async def open(self, read_fd: int, write_fd: int) -> None:
        """Take over two descriptors; from now on they are ours to close."""
        if _is_socket(read_fd) and os.path.sameopenfile(read_fd, write_fd):
            # One socket both ways: as a pipe, whatever arrived would look like its writing end being closed.
            os.close(write_fd)
            both, _ = await self._loop.connect_accepted_socket(lambda: _Duplex(self), socket.socket(fileno=read_fd))
            both.pause_reading()
            both.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
            self._reader = self._writer = both
            return
        for fd in (read_fd, write_fd):
            _widen(fd)
        if _is_pipe(read_fd):
            source = os.fdopen(read_fd, "rb", buffering=0)
            self._reader, _ = await self._loop.connect_read_pipe(lambda: _Incoming(self), source)
            self._reader.pause_reading()
            self._reader.max_size = READ_SIZE  # type: ignore[attr-defined]
        else:
            self._reader = _ReaderThread(read_fd, self)
        if _is_pipe(write_fd):
            sink = os.fdopen(write_fd, "wb", buffering=0)
            self._writer, _ = await self._loop.connect_write_pipe(lambda: _Outgoing(self), sink)
            self._writer.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        else:
            self._writer = _FileWriter(write_fd, self)

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended
        if self._early:
            hear(self._early)
        if self._is_over:
            self._loop.call_soon(ended)
        else:
            self._reader.resume_reading()

    def hold(self) -> None:
        if not self._held:
            self._held = True
            self._reader.pause_reading()

    def resume(self) -> None:
        if self._held:
            self._held = False
            self._reader.resume_reading()

    def send(self, frames: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(join_lines(frames))

    @property
    def queued(self) -> int:
        return self._writer.get_write_buffer_size()

    async def drain(self) -> None:
        await self._writable.wait()

    async def why_ended(self) -> Exception:
        return ConnectionClosed("the peer hung up")

    async def close(self) -> None:
        """Send what is queued if the peer still takes it, then let go of both ends."""
        self._writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._unwritten.wait()
        if not self._unwritten.is_set():
            self._writer.abort()
        self._reader.close()
        if isinstance(self._reader, _ReaderThread):
            await self._reader.gone()
        self.heard_all()

    # What the two ends report

    def heard(self, data: bytes) -> None:
        if frames := self._framer.feed(data):
            self._hear(frames)

    def heard_all(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if frames := self._framer.end():
            self._hear(frames)
        if self._ended:
            self._ended()

    def held_up(self, is_held_up: bool) -> None:
        if is_held_up:
            self._writable.clear()
        else:
            self._writable.set()

    def unheard(self) -> None:
        """The peer no longer listens: what it said last is still read, and then it has hung up."""
        self._unwritten.set()
        self._writable.set()
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


class _Incoming(asyncio.Protocol):
    def __init__(self, wire: StdioTransport) -> None:
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.heard(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.heard_all()


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
        return True  # it may still be told something

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.unheard()
        self._wire.heard_all()


class _ReaderThread:
    """Reads what asyncio cannot wait for: a regular file, or a terminal that must stay in blocking mode."""

    def __init__(self, fd: int, wire: StdioTransport) -> None:
        self._fd, self._wire = fd, wire
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()  # set once somebody listens
        self._taken = threading.Event()  # set when the loop has handled what was read last
        self._closed = False
        self._gone = asyncio.Event()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the loop may be gone before the last line
            while self._go.wait() and not self._closed and (data := os.read(self._fd, 64 * 1024)):
                self._taken.clear()
                self._loop.call_soon_threadsafe(self._hand_over, data)
                self._taken.wait()  # or a file would be in memory before its first line is answered
        os.close(self._fd)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self._gone.set()
        self._wire.heard_all()

    async def gone(self) -> None:
        """Until the descriptor is closed; a read that is under way, on a terminal say, cannot be waited for."""
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
    """Writes to a regular file or a terminal, which never make anybody wait for long."""

    def __init__(self, fd: int, wire: StdioTransport) -> None:
        self._fd, self._wire = fd, wire
        self._closed = False

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._fd)
            self._wire.unheard()

    def abort(self) -> None:
        self.close()


def _widen(fd: int) -> None:
    """Let a pipe hold more, where the system allows: fewer wake-ups for a large message."""
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
    """This process's stdin and stdout for the wire alone; gives their private descriptors.

    Meanwhile fd 0 is empty and fd 1 is stderr, for Python, for C code and for children alike, so a stray print
    lands in the log.  Where stderr is the very pipe the wire runs over, stray output is dropped instead.
    """
    global _claimed
    if _claimed:
        raise LocalProtocolError("stdin and stdout carry another connection already")
    _claimed = True
    sys.stdout.flush()
    saved = [os.dup(fd) for fd in (0, 1, 2)]  # dup makes them private to this process
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
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        _flush_c_output()
        for fd, copy in enumerate(saved):
            os.set_blocking(copy, True)
            os.dup2(copy, fd)
            os.close(copy)
        os.close(null)
        _claimed = False


def _flush_c_output() -> None:
    """C code has a buffer of its own; what is left in it must not come out when stdout is restored."""
    import ctypes

    ctypes.CDLL(None).fflush(None)
