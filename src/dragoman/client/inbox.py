"""Where a session's updates wait for their reader: in memory first, then on disk, always in order.

A slow reader must neither hold up the wire that other sessions share nor fill the memory: its unread updates go
to nameless temporary files.  Only when there is too much on disk too does the wire have to wait.

Updates do not say which prompt they belong to.  An agent takes the prompts of a session one after the other, so an
update belongs to the oldest one that is not answered.  Each prompt has a `Part` of the inbox of its own.
"""

import asyncio
from typing import Any, Protocol

from msgspec import Struct

from .. import codec
from ..connection.belonging import Home
from ..errors import Error, again
from ..schema import SessionNotification
from .spool import Spool

MEMORY = 4 * 1024 * 1024
COUNT = 16 * 1024
DISK = 1024 * 1024 * 1024


class _Frame(Struct):
    params: SessionNotification


class Holdable(Protocol):
    """A source of updates that can be held; mostly a connection."""

    def hold(self) -> None: ...
    def resume(self) -> None: ...


_NONE: list[Any] = []  # never added to


class Part:
    """The updates of one prompt, and those that came between it and the one before."""

    # Each prompt has a part, and most parts have none of these.
    is_due = False  # the prompt is not answered yet
    is_abandoned = False  # nobody holds the prompt any more
    spool: Spool | None = None
    failure: Error | None = None  # why updates are missing after those that are here
    is_dropped = False  # its updates are not wanted any more
    taken_size = 0  # bytes of the decoded updates

    def __init__(self) -> None:
        self.ready = _NONE  # decoded updates, the next one at the end
        self.arrived: list[Any] = []  # the frames after them, not decoded yet
        self.size = 0  # bytes of the frames that arrived
        self.taken_count = 0  # how many were decoded, including those that were read since
        self.takes_items = True  # nothing is on disk, and nothing is missing

    def adopt(self, other: "Part") -> None:
        """Take over the updates of another part, which is not used any more."""
        self.ready, self.arrived, self.size, self.takes_items = (
            other.ready,
            other.arrived,
            other.size,
            other.takes_items,
        )
        self.spool, self.failure = other.spool, other.failure
        self.taken_size, self.taken_count = other.taken_size, other.taken_count

    @property
    def is_read(self) -> bool:
        return not (self.ready or self.arrived or self.spool or self.failure)


class Inbox:
    """The waiting updates of one session; its wire is held when there is no room left.

    Updates are decoded a batch at a time; a batch takes up room until all of it has been read.
    """

    __slots__ = (
        *("_home", "_wire", "_memory", "_disk", "_current", "_parts", "_size", "_count"),
        *("spooled", "is_holding", "is_closed", "readers", "_waiters"),
    )

    def __init__(self, home: Home, wire: Holdable, *, memory: int = MEMORY, disk: int = DISK) -> None:
        self._home = home
        self.resize(wire, memory=memory, disk=disk)
        self._current: Part | None = None  # where the next update goes; made when there is one
        self._parts: list[Part] = []  # in the order they are to be read; a deque takes ten times the memory
        self._size = self._count = 0  # bytes of the frames in memory, and how many there are
        self.spooled = 0  # bytes on disk, or on their way to it
        self.is_holding = False
        self.is_closed = False
        self.readers = 0  # readers of the whole session, whichever prompt an update belongs to
        self._waiters: list[asyncio.Future[None]] = []

    def resize(self, wire: Holdable, *, memory: int = MEMORY, disk: int = DISK) -> None:
        """Change the room for updates once it is known whether somebody opened the session."""
        self._wire, self._memory, self._disk = wire, memory, disk

    # Prompts

    def begin(self, part: Part) -> None:
        """Give a prompt that was sent its part, which takes over the updates that nobody has read yet."""
        if self._parts and not self.readers:
            for abandoned in [other for other in self._parts if other.is_abandoned]:
                self._drop(abandoned)
            self._tidy()
        part.is_due = True
        between = self._current
        if between is None:
            self._current = part
        elif not between.is_due:
            part.adopt(between)
            self._parts.remove(between)
            self._current = part
        self._parts.append(part)

    def end(self, part: Part) -> None:
        """A prompt was answered: its part is complete."""
        part.is_due = False
        if part.is_dropped:
            self._parts.remove(part)
        self._current = None
        for other in self._parts:
            if other.is_due:
                self._current = other
                break
        if self._waiters:
            self.wake()

    def finish(self, part: Part) -> None:
        """Drop an answered prompt's part, all of which has been read."""
        parts = self._parts
        if parts and parts[0] is part:  # mostly
            del parts[0]
        elif part in parts:
            parts.remove(part)

    def _open(self) -> Part:
        self._current = part = Part()
        self._parts.append(part)
        return part

    # Updates

    def put(self, item: Any, frame: bytes) -> None:
        """Add an update, and the frame it came in."""
        part, size = self._current or self._open(), len(frame)
        if part.takes_items and self._size + size <= self._memory and self._count < COUNT:
            part.arrived.append(item)
            part.size += size
            self._size += size
            self._count += 1
        elif part.failure is None and not part.is_dropped:
            self._spill(part, frame)
        if self._waiters:
            self.wake()

    def fetch(self, part: Part) -> bool:
        """Decode the next updates of a part whose decoded ones were all read; false when there are none.

        Raises the failure that lost the updates after them.
        """
        if part.taken_count:
            self._forget_taken(part)
        if not part.arrived:
            if part.takes_items:
                return False
            if part.spool is not None:
                self._refill(part)
            if not part.arrived:
                if part.failure is not None:
                    raise again(part.failure)
                return False
        part.ready = ready = part.arrived
        part.arrived = []
        ready.reverse()
        part.taken_size, part.taken_count, part.size = part.size, len(ready), 0
        return True

    def pop_any(self) -> Any | None:
        """The next update of any part, or None; a failure is raised once."""
        for part in list(self._parts):
            try:
                if part.ready or self.fetch(part):
                    return part.ready.pop()
            except Error:
                part.failure, part.takes_items = None, True
                raise
        self._tidy()
        return None

    def fail(self, failure: Error) -> None:
        """Keep no further updates; the reader gets the reason after the updates that were kept."""
        part = self._current or self._open()
        part.failure, part.takes_items = failure, False
        self.wake()

    def wait(self) -> "asyncio.Future[None]":
        """Wait until something happens here; any number of tasks of our event loop may wait."""
        self._home.check()
        if self._waiters:  # some may have been cancelled
            self._waiters = [waiter for waiter in self._waiters if not waiter.done()]
        waiter = self._home.loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def wake(self) -> None:
        """Wake every waiting task."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def close(self) -> None:
        """Drop the remaining updates; no more will come."""
        self.is_closed = True
        for part in self._parts:
            self._empty(part)
        self._release()
        self.wake()

    def _spill(self, part: Part, frame: bytes) -> None:
        part.takes_items = False
        if part.spool is None:
            part.spool = Spool(self._disk)
        before = part.spool.size
        try:
            part.spool.append(frame)
        except OSError as exc:
            part.failure = Error(f"updates of the session could not be kept: {exc.strerror or exc}")
        self.spooled += part.spool.size - before
        if self.spooled > self._disk and not self.is_holding:
            self.is_holding = True
            self._wire.hold()

    def _refill(self, part: Part) -> None:
        assert part.spool is not None
        before = part.spool.size
        try:
            for frame in part.spool.take():
                part.arrived.append(_read_update(frame))
                part.size += len(frame)
                self._size += len(frame)
                self._count += 1
        except OSError as exc:
            part.failure = Error(f"updates of the session cannot be read again: {exc.strerror or exc}")
            self._empty(part)
            return
        self.spooled += part.spool.size - before
        if part.spool.is_empty:
            part.spool.close()
            part.spool = None
            part.takes_items = part.failure is None
        if self.spooled < self._disk // 2:
            self._release()

    def _forget_taken(self, part: Part) -> None:
        self._size -= part.taken_size
        self._count -= part.taken_count
        part.taken_size = part.taken_count = 0

    def _drop(self, part: Part) -> None:
        """Drop a part that nobody will read any more."""
        self._empty(part)
        part.is_dropped, part.takes_items = True, False
        if not part.is_due:
            self._parts.remove(part)

    def _empty(self, part: Part) -> None:
        self._forget_taken(part)
        self._size -= part.size
        self._count -= len(part.arrived)
        part.size = 0
        part.ready = _NONE
        part.arrived.clear()
        if part.spool is not None:
            self.spooled -= part.spool.size
            part.spool.close()
            part.spool = None
            if self.spooled < self._disk // 2:
                self._release()

    def _tidy(self) -> None:
        """Forget the parts at the front that have been read."""
        parts = self._parts
        while parts and parts[0].is_read and not parts[0].is_due:
            self._forget_taken(parts[0])
            if parts[0] is self._current:
                self._current = None
            del parts[0]

    def _release(self) -> None:
        if self.is_holding:
            self.is_holding = False
            self._wire.resume()


def _read_update(frame: bytes) -> Any:
    try:
        return codec.decode(frame, _Frame).params.update
    except codec.Malformed:  # it was repaired when it arrived, but stored as it was
        return codec.decode(codec.mend(frame), _Frame).params.update
