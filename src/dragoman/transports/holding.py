"""Pause reading until it is resumed, or until the receiver of the messages has room."""

import asyncio
import contextlib
import select
from collections.abc import Awaitable, Callable

from ..errors import ConnectionClosed
from ..foundation.owning import own

LOOK_EVERY = 2.0  # seconds of one hold between two checks whether the peer is still connected
GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Holding:
    """Pauses and resumes reading; if the peer hangs up during a long hold, its messages are read to the end.

    While reading is held, the peer's end is not seen, since it lies behind unread bytes.  So a long hold checks the
    descriptor.  Once the peer can send no more, reading continues for good, to the last messages and then the end;
    the system's buffer bounds how much that is.  A hold shorter than `LOOK_EVERY` reaches the end by itself, so
    that a receiver that is merely slow loses nothing.

    Where the descriptor is not known (`look_ahead` is given), a long hold reads one more portion instead, after
    pauses that double.  A live peer thus gains little more than one portion, and the end of a peer that has hung up
    is within the next one.
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
        self._count = 0  # number of the hold, to tell a long hold from several short ones
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
        """Stop for good: there is nothing more to read."""
        self._is_held, self._is_over = False, True
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Read everything that a peer sent before it hung up."""
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
        except (OSError, ValueError):  # closed already, so the end was noticed in another way
            return False


class HoldableWire:
    """The part of a transport that holds and resumes reading."""

    _holding: Holding

    def hold(self) -> None:
        self._holding.hold()

    def resume(self) -> None:
        self._holding.resume()


class HeldUntilRoom:
    """Holds a source until its sink has room; further calls of `begin` meanwhile change nothing."""

    def __init__(
        self, hold: Callable[[], None], resume: Callable[[], None], room: Callable[[], Awaitable[None]]
    ) -> None:
        self._hold, self._resume, self._room = hold, resume, room
        self._is_held = False

    def begin(self) -> None:
        """Hold the source, unless it is held already; to be called when the sink is full."""
        if not self._is_held:
            self._is_held = True
            self._hold()
            own(self._wait(), "making room")

    async def _wait(self) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):  # a sink that has ended delays nothing any more
                await self._room()
        finally:
            self._is_held = False
            self._resume()
