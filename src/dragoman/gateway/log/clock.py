"""The gateway's clock, which never goes back, not even over a restart."""

import time

from .engine import Engine

FACT = ("gateway", "latest")
STEP = 1e-6  # seconds between two times that the system clock does not tell apart


class IncreasingClock:
    """Gives times, each later than all earlier ones, including those of earlier processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._latest = self._kept = 0.0

    async def begin(self) -> None:
        """Continue after the latest time that was stored."""
        if fact := await self._engine.fact(*FACT):
            self._latest = self._kept = float(fact.value)

    async def keep(self) -> None:
        """Store the latest time, if it is new."""
        if (latest := self._latest) > self._kept:
            await self._engine.put_fact(*FACT, value=repr(latest).encode())
            self._kept = latest

    def now(self) -> float:
        """The system clock's time; if that is not later than the last time given, the next one after it."""
        self._latest = max(time.time(), self._latest + STEP)
        return self._latest
