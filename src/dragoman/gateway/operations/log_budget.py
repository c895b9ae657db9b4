"""Limits a gateway's log: some lines of each kind a minute, then one line with the number of further ones.

A kind is a place in the program, so texts of agents or clients do not make new kinds.
"""

import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from ..chores import Chore
from ..gateway import Gateway

log = logging.getLogger("dragoman")

MINUTE = 60.0
CHORE = "log lines"
LONGEST = 4096  # characters of a message; the rest is cut off


class _Kind(Struct):
    since: float
    level: int
    lines: int = 0
    dropped: int = 0
    last: str = ""


class LogBudget(logging.Filter):
    """Drops lines of a kind beyond a limit a minute; a chore calls `flush`, which reports them."""

    def __init__(self, most: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.most = most
        self.dropped = 0  # lines in total
        self._clock = clock
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_count", False):
            return True
        place = record.pathname, record.lineno
        with self._lock:
            kind = self._kinds.get(place)
            if kind is None:
                kind = self._kinds[place] = _Kind(self._clock(), record.levelno)
            if kind.lines >= self.most():
                kind.dropped += 1
                self.dropped += 1
                kind.last = str(record.msg)
                return False
            kind.lines += 1
        _cut(record)
        return True

    def flush(self, *, is_last: bool = False) -> None:
        """Log how many lines of each kind were dropped in the last minute, and start over."""
        now = self._clock()
        with self._lock:
            over = {place: kind for place, kind in self._kinds.items() if is_last or now - kind.since >= MINUTE}
            for place in over:
                del self._kinds[place]
        for kind in over.values():
            if kind.dropped:
                told = "%d more lines like this within a minute: %s"
                log.log(kind.level, told, kind.dropped, kind.last[:200], extra={"is_count": True})


@contextlib.asynccontextmanager
async def logging_within(gateway: Gateway) -> AsyncIterator[LogBudget]:
    """Apply the budget's limit to all log records of this process."""
    budget = LogBudget(lambda: gateway.limits.log_lines)
    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(budget)

    async def round() -> None:
        before, budget.dropped = budget.dropped, 0
        gateway.metrics.refusals.add(before, "log_lines")
        budget.flush()

    gateway.chores.begin(Chore(CHORE, round, MINUTE / 4))
    try:
        yield budget
    finally:
        await gateway.chores.end(CHORE)
        budget.flush(is_last=True)
        for handler in handlers:
            handler.removeFilter(budget)


def _cut(record: logging.LogRecord) -> None:
    """Shorten a long message."""
    try:
        message = record.getMessage()
    except Exception:  # the handler reports its fault
        return
    if len(message) > LONGEST:
        record.msg, record.args = f"{message[:LONGEST]} [{len(message) - LONGEST} characters more]", None
