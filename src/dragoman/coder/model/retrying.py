"""Repeats requests that failed for a temporary reason, and shows the user that it does."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from ...agent.turn import Turn
from .port import SILENCE, Busy

REPEATS = 3  # of the same call, from which on it is not made again

T = TypeVar("T")


class TurnLimits(Struct, frozen=True):
    """Limits of a turn."""

    requests: int = 100  # to the model
    tries: int = 5  # tries of a request that fails for temporary reasons
    delay: float = 1.0  # seconds before the second try; doubled each time
    longest_delay: float = 60.0
    repeats: int = REPEATS  # of the same call, from which on it is not made again
    silence: float = SILENCE  # seconds between two events of a model
    insists: int = 6  # repetitions of the same call at which the turn ends


class Retries:
    """Repeats failed requests of one turn."""

    def __init__(self, turn: Turn, limits: TurnLimits) -> None:
        self._turn = turn
        self._limits = limits

    async def run(
        self, request: Callable[[], Awaitable[T]], forget: Callable[[], Awaitable[None]] | None = None
    ) -> T:
        """The result of a request; `forget` is called before each repetition.  Raises Busy if all tries fail."""
        delay = self._limits.delay
        for attempt in range(1, self._limits.tries):
            try:
                return await request()
            except Busy as exc:
                if forget:
                    await forget()
                asked_for = delay * random.uniform(0.8, 1.2) if exc.after is None else exc.after
                wait = min(asked_for, self._limits.longest_delay)
                await self._tell(str(exc), wait, attempt)
                await asyncio.sleep(wait)
                delay *= 2
        return await request()

    async def _tell(self, why: str, wait: float, attempt: int) -> None:
        title = f"Trying again in {wait:.0f} s ({attempt} of {self._limits.tries - 1})"
        if not await self._turn.session.notice(title, why, "warning"):
            await self._turn.think(f"{title}: {why}\n")
