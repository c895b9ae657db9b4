"""Moments of a gateway: in the order in which things happened, also where the clock goes back."""

import time

from .engine import Engine

FACT = ("gateway", "latest")
STEP = 1e-6  # seconds between two moments that the clock does not tell apart


class Moments:
    """Gives moments, each later than those before, those of earlier processes included."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._latest = self._kept = 0.0

    async def begin(self) -> None:
        """Go on behind the latest moment that was kept."""
        if fact := await self._engine.fact(*FACT):
            self._latest = self._kept = float(fact.value)

    async def keep(self) -> None:
        """Keep the latest moment, if there was one since."""
        if (latest := self._latest) > self._kept:
            await self._engine.put_fact(*FACT, value=repr(latest).encode())
            self._kept = latest

    def now(self) -> float:
        """The time of the clock, or where that is earlier than a moment there was, the next one after it."""
        self._latest = max(time.time(), self._latest + STEP)
        return self._latest
