"""A command's output: read at a limited pace that leaves the event loop to others; its end is kept.

Output is counted in bytes of UTF-8 and cut between two characters; invalid UTF-8 becomes U+FFFD.  A descriptor is
read at most once in `PACE` seconds, one pipe's content at a time: a command that prints endlessly has to wait.
"""

import asyncio
import codecs
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Literal, NamedTuple

PIECE = 64 * 1024  # the size of a pipe's buffer
SMALL = 16 * 1024  # smaller parts are joined
PACE = 0.004  # seconds between two reads, for all busy commands together
UNREAD = 256 * 1024  # characters that a follower may lag behind before the command has to wait
WRAPPING = 64  # the cost of a chunk besides its own characters
LEFTOVERS = 1024 * 1024  # the most that a pipe or a terminal can still contain when its command has ended

StreamName = Literal["stdout", "stderr"]
CONTINUATION = range(0x80, 0xC0)  # continuation bytes


class Chunk(NamedTuple):
    stream: StreamName
    text: str


class Tail:
    """The end of a text in UTF-8, at most `limit` bytes; a little more is kept, so that no bytes are moved."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytearray] = deque()  # each consists of whole characters
        self._size = 0
        self.truncated = False  # the beginning was dropped

    def add(self, data: bytes) -> None:
        if self._pieces and len(self._pieces[-1]) < SMALL:
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))
        self._size += len(data)
        self.truncated = self.truncated or self._size > self._limit
        while self._pieces and self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    def __str__(self) -> str:
        kept = b"".join(self._pieces)
        start = max(len(kept) - self._limit, 0)
        while start < len(kept) and kept[start] in CONTINUATION:
            start += 1
        return kept[start:].decode()


class ReadingPace:
    """Divides reading among all streams that have unread output."""

    def __init__(self) -> None:
        self._busy = 0

    def later(self, resume: Callable[[], None]) -> asyncio.TimerHandle:
        self._busy += 1
        return asyncio.get_running_loop().call_later(PACE * self._busy, resume)

    def done(self) -> None:
        self._busy -= 1


class OutputStream:
    """One descriptor, read as text and closed here."""

    def __init__(
        self, fd: int, name: StreamName, pace: ReadingPace, hear: Callable[[StreamName, bytes], None]
    ) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._name: StreamName = name
        self._pace, self._hear = pace, hear
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._plain = True  # the decoder has no incomplete character
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._held = False
        self.over = False
        self._loop.add_reader(fd, self._readable)

    def hold(self) -> None:
        """Stop reading, so that the command has to wait."""
        if not self._held and not self.over:
            self._held = True
            self._loop.remove_reader(self.fd)

    def resume(self) -> None:
        if self._held and not self.over:
            self._held = False
            if self._pause is None:
                self._loop.add_reader(self.fd, self._readable)

    def drain(self, most: int = LEFTOVERS) -> None:
        """Read the present content, without waiting for more."""
        while not self.over and most > 0 and (size := self._read(most)):
            most -= size

    def close(self) -> None:
        if not self.over:
            self.over = True
            self._loop.remove_reader(self.fd)
            if self._pause:
                self._pause.cancel()
                self._pace.done()
            os.close(self.fd)
            self._say(b"", final=True)

    def _readable(self) -> None:
        self.drain(PIECE)  # a terminal returns smaller pieces
        if not self.over:
            self._loop.remove_reader(self.fd)
            self._pause = self._pace.later(self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._pace.done()
        if not self._held:
            self._loop.add_reader(self.fd, self._readable)

    def _read(self, most: int) -> int:
        """Read once; returns the number of bytes, and closes at the end."""
        try:
            data = os.read(self.fd, min(most, PIECE))
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that is not open anywhere else any more
            data = b""
        if data:
            self._say(data)
        else:
            self.close()
        return len(data)

    def _say(self, data: bytes, final: bool = False) -> None:
        if not self._plain or not data.isascii():
            data = self._decoder.decode(data, final).encode()
            self._plain = not self._decoder.getstate()[0]
        if data:
            self._hear(self._name, data)


class PrintedOutput:
    """A command's whole output: its end, and its followers."""

    def __init__(self, limit: int, pace: ReadingPace) -> None:
        self.tail = Tail(limit)
        self._pace = pace
        self._streams: list[OutputStream] = []
        self._followers: set[_Follower] = set()
        self._first: _Follower | None = None  # output of separate streams before there is a follower
        self._ended = False

    def listen(self, fd: int, name: StreamName) -> None:
        """Take over a descriptor and read it."""
        if name == "stderr":
            self._first = _Follower()
        self._streams.append(OutputStream(fd, name, self._pace, self._hear))

    async def follow(self) -> AsyncGenerator[Chunk, None]:
        """The output kept so far, then new output as it arrives, until the command ends.

        A slow reader slows the command.
        """
        follower, self._first = self._first or self._informed(), None
        self._followers.add(follower)
        try:
            while follower.waiting or not self._ended:
                if follower.waiting:
                    yield follower.take()
                    self._hold_or_resume()
                else:
                    await follower.wait()
        finally:
            self._followers.discard(follower)
            self._hold_or_resume()

    def _informed(self) -> "_Follower":
        follower = _Follower()
        if kept := str(self.tail):
            follower.put(Chunk("stdout", kept))
        return follower

    def end(self) -> None:
        """The command has ended: read its last output and end the followers; background processes are read on."""
        for stream in self._streams:
            stream.drain()
        self._ended = True
        for follower in self._followers:
            follower.wake()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self.end()

    def _hear(self, stream: StreamName, data: bytes) -> None:
        self.tail.add(data)
        if self._ended or not (self._followers or self._first):
            return
        chunk = Chunk(stream, data.decode())
        for follower in self._followers:
            follower.put(chunk)
        if self._first:
            self._first.put(chunk)
            if self._first.unread > UNREAD:  # apparently no follower will come
                self._first = None
        self._hold_or_resume()

    def _hold_or_resume(self) -> None:
        behind = not self._ended and any(follower.unread > UNREAD for follower in self._followers)
        for stream in self._streams:
            if behind:
                stream.hold()
            else:
                stream.resume()


class _Follower:
    def __init__(self) -> None:
        self.waiting: deque[Chunk] = deque()
        self.unread = 0
        self._something = asyncio.Event()

    def put(self, chunk: Chunk) -> None:
        self.waiting.append(chunk)
        self.unread += len(chunk.text) + WRAPPING
        self._something.set()

    def take(self) -> Chunk:
        chunk = self.waiting.popleft()
        self.unread -= len(chunk.text) + WRAPPING
        return chunk

    def wake(self) -> None:
        self._something.set()

    async def wait(self) -> None:
        self._something.clear()
        await self._something.wait()
