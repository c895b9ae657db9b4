"""A connection belongs to one event loop, of one thread, in one process."""

import asyncio
import os
from asyncio import _get_running_loop
from threading import get_ident
from weakref import WeakSet

from ..errors import LocalProtocolError

ELSEWHERE = (
    "this connection belongs to another event loop: call it there, with asyncio.run_coroutine_threadsafe or "
    "loop.call_soon_threadsafe, or use dragoman.blocking, which any thread may call"
)
FORKED = "this connection belongs to the process that this one was forked from: open another one here"


class Home:
    """The event loop in which this object was made."""

    __slots__ = ("__weakref__", "_thread", "loop")

    def __init__(self) -> None:
        self.loop, self._thread = asyncio.get_running_loop(), get_ident()
        _homes.add(self)

    def check(self) -> None:
        """Raise an error for a call from outside our event loop."""
        if get_ident() != self._thread or not self.loop.is_running():
            if self._thread == LEFT:
                raise LocalProtocolError(FORKED)
            if _get_running_loop() is not self.loop:  # checked last: in Python 3.11 it makes a system call
                raise LocalProtocolError(ELSEWHERE)
            self._thread = get_ident()

    def leave(self) -> None:
        """Note that this process is a fork; its thread has the same number as the parent's."""
        self._thread = LEFT


LEFT = 0  # a number that no thread has
_homes: WeakSet[Home] = WeakSet()


def _leave_all() -> None:
    for home in _homes:
        home.leave()


os.register_at_fork(after_in_child=_leave_all)
