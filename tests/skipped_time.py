"""A clock that stands still while something happens, and skips the time in which nothing does.

Timers then run in their order and after exactly the time they were set to, however busy the machine is, and an hour
of waiting takes no longer than a look at the sockets.  Everything that takes part has to be in one event loop.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from selectors import BaseSelector, SelectorKey
from typing import Any

QUIET = 0.05  # real seconds without anything to read or write, after which nothing is on its way


class SkippedTime:
    def __init__(self, selector: BaseSelector) -> None:
        self.now = 0.0
        self._select = selector.select

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait for the sockets; skip to the next timer when nothing comes."""
        if timeout is None or timeout <= 0:
            return self._select(timeout)
        ready = self._select(QUIET)
        if not ready:
            self.now += timeout
        return ready


@contextmanager
def skipped_time() -> Iterator[SkippedTime]:
    """Have the running event loop skip the time in which nothing happens; timers set before do not count."""
    loop: Any = asyncio.get_running_loop()
    clock = SkippedTime(loop._selector)
    clock.now = loop.time()
    loop.time, loop._selector.select = clock.time, clock.select
    try:
        yield clock
    finally:
        del loop.time, loop._selector.select
