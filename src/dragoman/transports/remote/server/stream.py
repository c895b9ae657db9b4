"""One stream to a client: numbered frames, and the one reader that may take them.

A reader that comes while the server still believes in the one before begins a new generation.  From then on the one
before takes nothing, hears nothing and says nothing, however long its socket lingers.
"""

import asyncio
from collections import deque

from ..replay import Log

BATCH = 256 * 1024  # bytes handed to the server at once


class Superseded(ConnectionResetError):
    """A newer reader has come for the stream."""


class Stream:
    """The frames for one reader, in order: those that wait, and those that may have to be sent again."""

    def __init__(self) -> None:
        self.size = 0  # bytes that wait
        self.acknowledge: int | None = None  # how far we have heard the reader, when it is time to tell it
        self.reader: StreamClaim | None = None
        self.generation = 0  # of the newest reader, whether it is still there or not
        self.is_closed = False
        self._sent = Log()
        self._reached = 0  # the highest number that any reader was given
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()

    @property
    def unacknowledged(self) -> int:
        """Bytes that were taken and are kept."""
        return self._sent.size

    def put(self, frames: list[bytes]) -> None:
        self._waiting.extend(frames)
        self.size += sum(map(len, frames))
        self._more.set()

    def attach(self, task: asyncio.Task[object], generation: int) -> "StreamClaim":
        """A task becomes the newest reader; the one before is cancelled."""
        if self.reader is not None:
            self.reader.task.cancel()
        self.generation = generation
        self.reader = StreamClaim(self, task)
        self._more.set()
        return self.reader

    def covers(self, number: int) -> bool:
        """Whether everything after this number is still here, and a reader was ever given this number."""
        return self._sent.forgotten <= number <= self._reached

    def rewind(self, number: int) -> None:
        """Go back to right after a number, which the stream has to cover."""
        again = self._sent.take_back()
        self._waiting.extendleft(reversed(again))
        self.size += sum(map(len, again))
        self.forget(number)
        self._more.set()

    def forget(self, number: int) -> None:
        """The client has everything up to this number; a reader may have been rewound behind it."""
        number = min(number, self._reached)
        self._sent.forget(number)
        while self._sent.last < number:
            self._pass_on()
            self._sent.forget(number)

    def trim(self, size: int) -> None:
        """Keep at most so many bytes of frames that were taken."""
        self._sent.trim(size)

    def _pass_on(self) -> bytes:
        frame = self._waiting.popleft()
        self.size -= len(frame)
        self._sent.append([frame])
        return frame

    def next(self) -> tuple[int, list[bytes]]:
        """The next frames that wait, and the number of the first of them."""
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
        """Until something waits, or the stream is closed."""
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
    """A claim on a stream by the task that serves one socket; it holds until a newer reader comes."""

    def __init__(self, stream: Stream, task: asyncio.Task[object]) -> None:
        self.stream, self.task = stream, task

    @property
    def is_newest(self) -> bool:
        return self.stream.reader is self

    def check(self) -> None:
        """Raise Superseded once a newer reader has come."""
        if not self.is_newest:
            raise Superseded(0, "a newer reader has come")

    def take(self) -> tuple[int, list[bytes]]:
        """The next frames that wait, and the number of the first of them."""
        self.check()
        return self.stream.next()

    def take_acknowledgement(self) -> int | None:
        """How far the client was heard, if it is time to tell it."""
        self.check()
        number, self.stream.acknowledge = self.stream.acknowledge, None
        return number

    async def more(self) -> None:
        await self.stream.more()
