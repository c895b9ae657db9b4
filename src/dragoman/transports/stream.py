"""One stream to a client: what waits to be sent on it, and what was sent but may have to be sent again."""

import asyncio
from collections import deque
from typing import Any

from .replay import Log

BATCH = 256 * 1024  # bytes handed to the server at once


class Stream:
    """What one reader is to get, in order: what waits, and what was sent but may have to be sent again."""

    def __init__(self) -> None:
        self.sent = Log()
        self.size = 0  # bytes that wait
        self.acknowledge: int | None = None  # how far we have heard the reader, when it is time to tell it
        self.reader: asyncio.Task[Any] | None = None
        self.is_closed = False
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()

    def put(self, frames: list[bytes]) -> None:
        self._waiting.extend(frames)
        self.size += sum(map(len, frames))
        self._more.set()

    def take(self) -> tuple[int, list[bytes]]:
        """The next frames that wait, and the number of the first of them."""
        frames: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH:
            frames.append(self._waiting.popleft())
            size += len(frames[-1])
        self.size -= size
        self.sent.append(frames)
        return self.sent.last - len(frames) + 1, frames

    def rewind(self, number: int) -> None:
        """Go back to right after a number, which the log has to cover."""
        self.sent.forget(number)
        again = self.sent.take_back()
        self._waiting.extendleft(reversed(again))
        self.size += sum(map(len, again))
        self._more.set()

    async def more(self) -> None:
        """Until something waits, or the stream is closed."""
        self._more.clear()
        if not self._waiting and not self.is_closed and self.acknowledge is None:
            await self._more.wait()

    def discard(self) -> None:
        """What waits is not to be heard any more."""
        self._waiting.clear()
        self.size = 0

    def wake(self) -> None:
        self._more.set()

    def close(self) -> None:
        self.is_closed = True
        self._more.set()
