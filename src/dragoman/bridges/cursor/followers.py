"""Followers of a composer: its events as the stream of an HTTP answer."""

import asyncio
from collections import deque

from ... import codec

MAX_UNREAD = 8 * 1024 * 1024  # bytes of events that may wait for one follower


class Follower:
    """The reader of a stream of events.

    The stream of a reader that is too slow ends with an error that says so.  The turn continues.
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
        """Wait for events and take all that have arrived; empty at the end of the stream."""
        while not self._events and not self.is_over:
            self._told.clear()
            await self._told.wait()
        taken = b"".join(self._events)
        self._events.clear()
        self._unread = 0
        return taken


def encoded(kind: str, **members: object) -> bytes:
    """An event in the form of server-sent events; its JSON contains no line break."""
    return b"data: %b\n\n" % codec.encode({"type": kind, **members})
