"""The repeated tasks of a gateway: each chore has an owner that restarts it, and a state.

A failed round is followed by others.  The gateway is ready only if all chores are well.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from .workers import owned

log = logging.getLogger("dragoman")

LATE = 30.0  # seconds beyond its pause after which a chore without a finished round counts as failing
TOLD_EVERY = 60.0  # seconds between two log lines about a failing chore


class ChoreState(Struct, frozen=True):
    """The state of a chore: `trouble` is empty if it is well."""

    name: str
    trouble: str
    rounds: int  # finished rounds
    failures: int
    seconds_since: float  # the time of the last finished round, or of the start


class Chore:
    """Runs `round` at an interval of seconds, from `begin` to `end`."""

    def __init__(
        self,
        name: str,
        round: Callable[[], Awaitable[None]],
        every: float,
        *,
        first: float | None = None,
        late: float = LATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._round, self._every, self._late, self._clock = round, every, late, clock
        self._pause = every if first is None else first
        self._rounds = self._failures = 0
        self._failed = ""  # why the last round failed
        self._told = float("-inf")
        self._well_at = clock()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def begin(self, _: object = None) -> None:
        """Start it, or restart it after it died."""
        self._task = owned(self._run(), self.name, self.begin)
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Begin no further round, and cancel the running one."""
        self._is_over = True
        if self._task:
            self._task.cancel()

    async def end(self) -> None:
        """Stop, and wait until its task has ended."""
        self.stop()
        if self._task:
            await asyncio.wait([self._task])

    @property
    def state(self) -> ChoreState:
        since = self._clock() - self._well_at
        trouble = self._failed and f"{self.name} fails: {self._failed}"
        if not trouble and since > self._every + self._late:
            trouble = f"{self.name} has finished no round for {since:.0f} s"
        return ChoreState(self.name, trouble, self._rounds, self._failures, since)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = self._every
            try:
                await self._round()
            except Exception as exc:
                self._fail(exc)
            else:
                self._rounds += 1
                self._failed, self._well_at = "", self._clock()

    def _fail(self, exc: Exception) -> None:
        self._failures += 1
        self._failed = str(exc) or type(exc).__name__
        now = self._clock()
        if now - self._told >= TOLD_EVERY:
            self._told = now
            log.error("%s failed", self.name, exc_info=exc)

    def _ended(self, done: "asyncio.Task[None]") -> None:
        if done.cancelled() and not self._is_over:  # cancelled by mistake: it continues
            log.error("%s was cancelled; it begins again", self.name)
            self.begin()


class GatewayChores:
    """The chores of one gateway."""

    def __init__(self) -> None:
        self._chores: dict[str, Chore] = {}

    def begin(self, chore: Chore) -> None:
        self._chores[chore.name] = chore
        chore.begin()

    async def end(self, *names: str) -> None:
        """End some chores or all; ended ones do not count as failing."""
        ending = [self._chores.pop(name) for name in names or list(self._chores) if name in self._chores]
        for chore in ending:
            chore.stop()
        for chore in ending:
            await chore.end()

    def states(self) -> Sequence[ChoreState]:
        return [chore.state for chore in self._chores.values()]

    def troubles(self) -> Sequence[str]:
        """The problems: a sentence for each failing chore."""
        return [state.trouble for state in self.states() if state.trouble]
