"""A stream to a client: numbered frames, and the one reader that may take them.

A new reader may arrive while the server still has the previous one.  It begins a new generation: from then on the
previous reader takes, receives and sends nothing, however long its socket stays open.
"""

import asyncio
from collections import deque

from ..replay import Log

BATCH = 256 * 1024  # bytes handed to the server at once


class Superseded(ConnectionResetError):
    """A newer reader has replaced this one."""


class Stream:
    """The frames for one reader, in order: waiting ones, and those that may have to be sent again."""

    def __init__(self) -> None:
        self.size = 0  # waiting bytes
        self.acknowledge: int | None = None  # the number to acknowledge to the reader, when it is time
        self.reader: StreamClaim | None = None
        self.generation = 0  # of the newest reader, even if it has disconnected
        self.is_closed = False
        self._sent = Log()
        self._reached = 0  # the highest number given to any reader
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()

    @property
    def unacknowledged(self) -> int:
        """Bytes of frames that were taken and are still kept."""
        return self._sent.size

    def put(self, frames: list[bytes]) -> None:
        self._waiting.extend(frames)
        self.size += sum(map(len, frames))
        self._more.set()

    def attach(self, task: asyncio.Task[object], generation: int) -> "StreamClaim":
        """Make a task the newest reader; the previous one is cancelled."""
        if self.reader is not None:
            self.reader.task.cancel()
        self.generation = generation
        self.reader = StreamClaim(self, task)
        self._more.set()
        return self.reader

    def covers(self, number: int) -> bool:
        """Whether all frames after this number are still kept, and a reader was ever given this number."""
        return self._sent.forgotten <= number <= self._reached

    def rewind(self, number: int) -> None:
        """Continue after a number, which the stream has to cover."""
        again = self._sent.take_back()
        self._waiting.extendleft(reversed(again))
        self.size += sum(map(len, again))
        self.forget(number)
        self._more.set()

    def forget(self, number: int) -> None:
        """Forget frames up to this number, since the client has them; the reader may have gone back before it."""
        number = min(number, self._reached)
        self._sent.forget(number)
        while self._sent.last < number:
            self._pass_on()
            self._sent.forget(number)

    def trim(self, size: int) -> None:
        """Keep at most `size` bytes of frames that were taken."""
        self._sent.trim(size)

    def _pass_on(self) -> bytes:
        frame = self._waiting.popleft()
        self.size -= len(frame)
        self._sent.append([frame])
        return frame

    def next(self) -> tuple[int, list[bytes]]:
        """The next waiting frames, and the number of the first of them."""
        frames: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH:
            frames.append(self._waiting.popleft())
            size += len(frames[-1])
        self.size -= size
        self._sent.append(frames)
        self._reached = max(self._reached, self._sent.last)
        return self._sent.last - len(frames) + 1, frames

    async def more(self) -> None:
        """Wait for frames, or until the stream is closed."""
        self._more.clear()
        if not self._waiting and not self.is_closed and self.acknowledge is None:
            await self._more.wait()

    def discard(self) -> None:
        """Drop the waiting frames."""
        self._waiting.clear()
        self.size = 0

    def wake(self) -> None:
        self._more.set()

    def close(self) -> None:
        self.is_closed = True
        self._more.set()


class StreamClaim:
    """The claim on a stream of the task that serves one socket; it is valid until a newer reader arrives."""

    def __init__(self, stream: Stream, task: asyncio.Task[object]) -> None:
        self.stream, self.task = stream, task

    @property
    def is_newest(self) -> bool:
        return self.stream.reader is self

    def check(self) -> None:
        """Raise Superseded if a newer reader has arrived."""
        if not self.is_newest:
            raise Superseded(0, "a newer reader has taken over this stream")

    def take(self) -> tuple[int, list[bytes]]:
        """The next waiting frames, and the number of the first of them."""
        self.check()
        return self.stream.next()

    def take_acknowledgement(self) -> int | None:
        """The number to acknowledge to the client, if it is time."""
        self.check()
        number, self.stream.acknowledge = self.stream.acknowledge, None
        return number

    async def more(self) -> None:
        await self.stream.more()
