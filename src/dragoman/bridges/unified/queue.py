"""Messages that wait for their reader, in order; a full queue slows down the agent instead of filling memory."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

from .messages import UnifiedMessage

ROOM = 4 * 1024 * 1024  # bytes of waiting frames
SMALLEST = 256  # the least bytes that a message counts


class MessageQueue:
    """A queue with one reader; `hold` and `resume` are called as the room is used up and becomes free."""

    def __init__(self, hold: Callable[[], None], resume: Callable[[], None]) -> None:
        self._hold, self._resume = hold, resume
        self._waiting: deque[tuple[UnifiedMessage, int]] = deque()
        self._size = 0
        self._holds = self._is_over = False
        self._changed = asyncio.Event()

    def put(self, message: UnifiedMessage, size: int = 0, *, first: bool = False) -> None:
        """Add a message, and the size of the frame it came in."""
        if self._is_over:
            return
        size = max(size, SMALLEST)
        (self._waiting.appendleft if first else self._waiting.append)((message, size))
        self._size += size
        if self._size > ROOM and not self._holds:
            self._holds = True
            self._hold()
        self._changed.set()

    def end(self) -> None:
        """End the queue; waiting messages can still be read."""
        self._is_over = True
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> UnifiedMessage:
        """The next message; cancelling this call loses none."""
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        message, size = self._waiting.popleft()
        self._size -= size
        if self._holds and self._size < ROOM // 2:
            self._holds = False
            self._resume()
        return message
