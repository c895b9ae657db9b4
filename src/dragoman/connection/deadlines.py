"""The calls of a connection that have a deadline."""

import asyncio
from collections.abc import Callable

from ..events import Method


class Deadlines:
    """Gives up calls at their deadline; one timer serves all, since most calls are answered long before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[int, Method], None]) -> None:
        self._loop, self._expire = loop, expire
        self._due: dict[int, tuple[float, Method]] = {}
        self._timer: asyncio.TimerHandle | None = None  # set for the earliest deadline

    def add(self, id: int, method: Method) -> None:
        assert method.timeout
        due = self._loop.time() + method.timeout
        self._due[id] = due, method
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def discard(self, id: int) -> None:
        self._due.pop(id, None)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _set_timer(self, due: float) -> None:
        self.close()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        for id, (due, method) in list(self._due.items()):
            if due <= self._loop.time():
                del self._due[id]
                self._expire(id, method)
        if self._due:
            self._set_timer(min(due for due, _ in self._due.values()))
