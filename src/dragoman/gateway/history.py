"""A session's log as its one writer sees it.

A record has its number as soon as it is added, so an update can carry it.  What is added while some are being
written goes with the next write.  Nobody is told of a record before it is durable.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import Error
from . import logs
from .engine import Engine, Entry, Lease, Origin
from .metrics import Metrics

Publish = Callable[[int, Sequence[Entry]], None]


class History:
    """Adds to one log; `publish` is called with what has become durable, `broke` if that can no longer be."""

    def __init__(
        self, engine: Engine, lease: Lease, last: int, metrics: Metrics, publish: Publish, broke: Callable[[], None]
    ) -> None:
        self.last = self.durable = last
        self.broken: Error | None = None
        self.waiting = 0  # bytes that are not durable yet
        self._engine, self._lease, self._metrics = engine, lease, metrics
        self._publish, self._broke = publish, broke
        self._added: list[Entry] = []
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._writer: asyncio.Task[None] | None = None

    @property
    def lease(self) -> Lease:
        return self._lease

    def add(self, origin: Origin, make: Callable[[int], bytes], principal: str = "", client: str = "") -> int:
        """Add a record, made with its number, which is given back; it is written soon."""
        if self.broken:
            raise self.broken
        number = self.last + 1
        frame = make(number)
        self.last = number
        self._added.append(Entry(origin, frame, principal, client))
        self.waiting += len(frame)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="session log")
        return number

    async def settled(self, number: int | None = None) -> None:
        """Wait until a record, by default the last, is durable; raises what keeps it from that."""
        number = self.last if number is None else number
        if number > self.durable and not self.broken:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((number, settled))
            await settled
        if number > self.durable and self.broken:
            raise self.broken

    async def close(self) -> None:
        """Let what was added become durable."""
        if self._writer:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        while self._added and not self.broken:
            entries, self._added = self._added, []
            began = time.perf_counter()
            try:
                await logs.append(self._engine, self._lease, entries, self.durable)
            except Error as exc:
                self.broken = exc
                self._wake()
                self._broke()
                break
            self._metrics.append_seconds.observe(time.perf_counter() - began)
            self._metrics.appended.add(len(entries))
            self.waiting -= sum(len(entry.frame) for entry in entries)
            first, self.durable = self.durable + 1, self.durable + len(entries)
            self._publish(first, entries)
            self._wake()
        self._writer = None

    def _wake(self) -> None:
        while self._waiters and (self.broken or self._waiters[0][0] <= self.durable):
            _, settled = self._waiters.popleft()
            if not settled.done():
                settled.set_result(None)
