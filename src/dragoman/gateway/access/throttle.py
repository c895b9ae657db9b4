"""Makes a client that fails too often wait, and no other client; this slows down guessing and nonsense."""

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

FAILURES = 20  # failures within a window before a client has to wait
WINDOW = 60.0  # seconds
MAX_SOURCES = 10_000  # remembered sources; the one without failures for longest is dropped


class _Source(Struct):
    failures: int
    since: float


class Throttle:
    """Counts failures by source: an address or the name of a token."""

    def __init__(
        self,
        failures: int = FAILURES,
        window: float = WINDOW,
        *,
        sources: int = MAX_SOURCES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures, self._window, self._most, self._clock = failures, window, sources, clock
        self._sources: OrderedDict[str, _Source] = OrderedDict()

    def wait(self, source: str) -> float:
        """The seconds that a source has to wait; 0 if none."""
        found = self._sources.get(source)
        if found is None or found.failures < self._failures:
            return 0.0
        return max(0.0, found.since + self._window - self._clock())

    def failed(self, source: str) -> None:
        """Note a failure."""
        now = self._clock()
        found = self._sources.pop(source, None)
        if found is None or now - found.since >= self._window:
            found = _Source(0, now)
        found.failures += 1
        if found.failures == self._failures:
            found.since = now  # the wait begins here
        self._sources[source] = found
        if len(self._sources) > self._most:
            self._sources.popitem(last=False)

    def forget(self, source: str) -> None:
        """Remove a source that is gone."""
        self._sources.pop(source, None)
