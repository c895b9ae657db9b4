"""Limits on the cost of a peer: empty frames, messages that do not end, and the bytes of those."""

import asyncio
from collections.abc import Callable

from .addresses import SILENCE

SMALL = 16  # bytes; a smaller frame contains no message and costs its sender nothing
BURST, RATE = 2000, 200.0  # such frames that a peer may send at once, and per second
EARNED = 4  # such frames allowed for each frame with content
SLOWEST = 4096  # bytes a second of an incomplete message
FLOODED = "it sends too many empty frames"
LATE = 1.0  # seconds; a timer that is later shows that this process stood still, not that its peer was slow


class Allowance:
    """How often a peer may do things that cost only us."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._left: float = BURST
        self._at = self._clock()

    def spend(self, weight: int = 1) -> bool:
        """Count one more; false when the limit is exceeded."""
        self._left -= weight
        if self._left < 0:
            now = self._clock()
            self._left = min(BURST, self._left + (now - self._at) * RATE)
            self._at = now
        return self._left >= 0

    def earn(self, count: int) -> None:
        """Allow `count` more, which our own messages cause."""
        self._left = min(BURST, self._left + count)


class PeerPace:
    """Calls `give_up` when a peer stops or slows down in the middle of a message."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self, size: int) -> None:
        """Note that `size` bytes arrived and the message is not complete."""
        latest = self._loop.time() + SILENCE
        if self._timer is None:
            self._deadline = latest
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._deadline = min(latest, self._deadline + size / SLOWEST)

    def stop(self) -> None:
        """Stop the check: the message is complete, or we do not read."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = self._loop.time()
        assert self._timer
        if now > self._timer.when() + LATE:  # this process stood still, and bytes that arrived meanwhile are unread
            self._deadline = max(self._deadline, now + LATE)
        self._timer = None
        if now < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._give_up()


class UnfinishedMessages:
    """Counts the bytes of all incomplete messages of a peer."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def change(self, size: int) -> bool:
        """Add to the bytes held, or subtract from them; false when they are too many."""
        self._held += size
        return self._held <= self._most
