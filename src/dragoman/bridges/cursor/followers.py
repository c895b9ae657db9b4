"""Those who are told what happens in a composer, as events of an HTTP answer."""

import asyncio
from collections import deque

from ... import codec

MAX_UNREAD = 8 * 1024 * 1024  # bytes of events that one follower may have before it


class Follower:
    """Whoever reads a stream of events.

    One that reads too slowly loses its place: its stream ends with an error that says so.  The turn goes on.
    """

    def __init__(self, *, until_done: bool) -> None:
        self.until_done = until_done  # whether its stream ends with the turn
        self.is_over = False
        self._events: deque[bytes] = deque()
        self._unread = 0
        self._told = asyncio.Event()

    def tell(self, event: bytes) -> None:
        """Add an event to its stream."""
        if self.is_over:
            return
        self._unread += len(event)
        if self._unread > MAX_UNREAD:
            self._events.clear()
            event = encoded("error", message="this stream was read too slowly; read the session again")
            self.is_over = True
        self._events.append(event)
        self._told.set()

    def end(self) -> None:
        """Add nothing more."""
        self.is_over = True
        self._told.set()

    async def take(self) -> bytes:
        """Everything that it was told since it was last asked; waits for something.  Empty: the stream is over."""
        while not self._events and not self.is_over:
            self._told.clear()
            await self._told.wait()
        taken = b"".join(self._events)
        self._events.clear()
        self._unread = 0
        return taken


def encoded(kind: str, **members: object) -> bytes:
    """An event as a stream of server-sent events carries it; JSON has no line break in it."""
    return b"data: %b\n\n" % codec.encode({"type": kind, **members})
