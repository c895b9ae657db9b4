"""A session's log for its only writer.

A record has its number as soon as it is added, so an update can carry it.  Records added during a write go with the
next one.  No client gets a record before it is durable: the history listens to the engine like every reader, and
publishes written records when the engine reports that the log has grown.  A failed write breaks the log: nothing
more is added until `mend` has found out what it really holds.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Sequence

from ...errors import Error, InternalError
from ..log import logs
from ..log.engine import Engine, EngineFailure, Lease, LogEntry, Origin
from ..metrics import Metrics
from ..workers import owned

log = logging.getLogger("dragoman")

Publish = Callable[[int, Sequence[LogEntry]], None]
Told = Callable[[Error | None], None]


class History:
    """Adds to one log; `publish` is called with durable records, `broke` when the log breaks."""

    def __init__(
        self, engine: Engine, lease: Lease, last: int, metrics: Metrics, publish: Publish, broke: Callable[[], None]
    ) -> None:
        self.last = self.durable = last
        self.broken: Error | None = None
        self.waiting = 0  # bytes that are not durable yet
        self._engine, self._lease, self._metrics = engine, lease, metrics
        self._publish, self._broke = publish, broke
        self._added: list[LogEntry] = []
        self._waiters: list[tuple[int, int, Told]] = []  # a heap by record number, the lowest first
        self._count = itertools.count()
        self._writer: asyncio.Task[None] | None = None
        self._written: list[Sequence[LogEntry]] = []  # records that were not published yet
        self._end_listening = engine.listen(lease.name, self._grown)

    @property
    def lease(self) -> Lease:
        return self._lease

    def add(self, origin: Origin, make: Callable[[int], bytes], principal: str = "", client: str = "") -> int:
        """Add a record, made with its number, and write it soon; returns the number."""
        if self.broken:
            raise self.broken
        number = self.last + 1
        frame = make(number)
        self.last = number
        self._added.append(LogEntry(origin, frame, principal, client))
        self.waiting += len(frame)
        if self._writer is None:
            self._writer = owned(self._write(), "session log", self._break)
        return number

    def then(self, number: int, tell: Told) -> None:
        """Call `tell` with None once a record is durable, or with the error that prevents it."""
        if number <= self.durable or self.broken:
            tell(None if number <= self.durable else self.broken)
        else:
            heapq.heappush(self._waiters, (number, next(self._count), tell))

    async def settled(self, number: int | None = None) -> None:
        """Wait until a record, by default the last, is durable; raises the error that prevents it."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(broken: Error | None) -> None:
            if not settled.done():
                settled.set_exception(broken) if broken else settled.set_result(None)

        self.then(self.last if number is None else number, tell)
        await settled

    async def close(self) -> None:
        """Write the added records."""
        if self._writer:
            await asyncio.wait([self._writer])
        self._grown()
        self.leave()

    def leave(self) -> None:
        """Stop listening, because this process does not write the log any more."""
        self._end_listening()

    def found(self, entries: Sequence[LogEntry]) -> None:
        """Publish records of a broken log that were written but not acknowledged."""
        first, self.durable = self.durable + 1, self.durable + len(entries)
        self.last = self.durable
        if entries:
            self._publish(first, entries)

    def mend(self, lease: Lease, last: int) -> None:
        """Continue after a break, behind the last record of the log."""
        self._lease, self.last, self.durable, self.broken, self.waiting = lease, last, last, None, 0
        self._written.clear()

    async def _write(self) -> None:
        while self._added:
            entries, self._added = self._added, []
            began = time.perf_counter()
            try:
                await self._append(entries)
            except Error as exc:
                self._break(exc)
                return
            self._metrics.append_seconds.observe(time.perf_counter() - began)
            self._metrics.appended.add(len(entries))
            self._written.append(entries)
        self._writer = None

    async def _append(self, entries: Sequence[LogEntry]) -> None:
        """Write records, a second time if the first write may have happened: an engine stores them once."""
        after = self.durable + sum(map(len, self._written))
        try:
            await logs.append(self._engine, self._lease, entries, after)
        except EngineFailure:
            await logs.append(self._engine, self._lease, entries, after)

    def _grown(self) -> None:
        """Publish the records written here, after the log has grown."""
        try:
            while self._written and not self.broken:  # `mend` finds out what a broken log holds
                entries = self._written.pop(0)
                self.waiting -= sum(len(entry.frame) for entry in entries)
                first, self.durable = self.durable + 1, self.durable + len(entries)
                self._publish(first, entries)
        except Exception as exc:
            log.exception("records of session %s cannot be told", self._lease.name)
            self._break(exc)
        else:
            self._wake()

    def _break(self, why: Exception) -> None:
        if self._written:
            self._grown()
        self.broken = why if isinstance(why, Error) else InternalError(f"the log failed: {type(why).__name__}")
        self._writer, self._added = None, []
        self._broke()
        self._wake()

    def _wake(self) -> None:
        while self._waiters and (self.broken or self._waiters[0][0] <= self.durable):
            number, _, tell = heapq.heappop(self._waiters)
            tell(None if number <= self.durable else self.broken)
