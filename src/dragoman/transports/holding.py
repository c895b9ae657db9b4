"""Reading that can be held: until it is resumed, or until the receiver of the messages has room."""

import asyncio
import contextlib
import select
from collections.abc import Awaitable, Callable

from ..errors import ConnectionClosed
from ..foundation.owning import own

LOOK_EVERY = 2.0  # seconds of one hold between two looks at whether the peer is still there
GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Holding:
    """Pauses and resumes reading; a peer that hangs up during a long hold is read to its end all the same.

    A held wire does not see the peer's end, which lies behind the unread bytes.  So a hold that lasts looks
    at the descriptor; once the peer can send no more, reading goes on for good: its last messages are read, and
    then the end.  What the system kept for us bounds how much that is.  A hold that is given up within `LOOK_EVERY`
    comes to the end by itself, so nobody who is merely slow is cut short.

    Where the descriptor is not known (`look_ahead` is given), a hold that lasts reads a portion on instead, after
    pauses that double: a peer that lives has little more of us than one portion, and the end of one that is gone
    stands within the next.
    """

    def __init__(
        self,
        pause: Callable[[], None],
        resume: Callable[[], None],
        fileno: Callable[[], int],
        look_ahead: Callable[[], None] | None = None,
    ) -> None:
        self._pause, self._resume, self._fileno, self._look_ahead = pause, resume, fileno, look_ahead
        self._wait = LOOK_EVERY
        self._is_held = self._is_over = False
        self._count = 0  # of holds, to tell one that lasts from one after another
        self._timer: asyncio.TimerHandle | None = None

    def hold(self) -> None:
        if not self._is_held and not self._is_over:
            self._is_held = True
            self._count += 1
            self._wait = LOOK_EVERY
            self._pause()
            if self._timer is None:
                self._look_later()

    @property
    def is_held(self) -> bool:
        return self._is_held

    def resume(self) -> None:
        if self._is_held:
            self._is_held = False
            self._resume()

    def stop(self) -> None:
        """There is nothing to read any more."""
        self._is_held, self._is_over = False, True
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Read everything that a peer left when it hung up."""
        if self._is_held and self._has_hung_up():
            self.resume()
            self.stop()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._look_after, self._count)

    def _look_after(self, count: int) -> None:
        self._timer = None
        if count == self._count:
            self.look()
            if self._is_held and self._look_ahead:
                self._wait *= 2
                self._look_ahead()
        if self._is_held:
            self._look_later()

    def _has_hung_up(self) -> bool:
        looking = select.poll()
        try:
            looking.register(self._fileno(), GONE)
            return any(event & GONE for _, event in looking.poll(0))
        except (OSError, ValueError):  # closed already: then the end has come another way
            return False


class HoldableWire:
    """The part of a wire that holds its reading and resumes it."""

    _holding: Holding

    def hold(self) -> None:
        self._holding.hold()

    def resume(self) -> None:
        self._holding.resume()


class HeldUntilRoom:
    """Holds a source until its sink has room: once, however often `begin` is called meanwhile."""

    def __init__(
        self, hold: Callable[[], None], resume: Callable[[], None], room: Callable[[], Awaitable[None]]
    ) -> None:
        self._hold, self._resume, self._room = hold, resume, room
        self._is_held = False

    def begin(self) -> None:
        """Hold the source, unless it is held already; call it when the sink is full."""
        if not self._is_held:
            self._is_held = True
            self._hold()
            own(self._wait(), "making room")

    async def _wait(self) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):  # then nothing is in the way any more
                await self._room()
        finally:
            self._is_held = False
            self._resume()
