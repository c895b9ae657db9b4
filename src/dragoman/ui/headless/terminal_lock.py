"""Decides who may write to the terminal: the turn, or the open question."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ... import schema as s

Event = s.SessionUpdate | s.PromptResponse


class TerminalLock:
    """Shows events in order, and holds them back during a question."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self._asking = asyncio.Lock()
        self._held: list[Event] = []  # at most one, because writers wait for `free`

    def show(self, event: Event) -> None:
        if self._asking.locked():
            self._held.append(event)
        else:
            self._show(event)

    async def free(self) -> None:
        """Wait until no question is open."""
        while self._asking.locked():
            async with self._asking:
                pass

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Ask a question; nothing else is shown meanwhile."""
        async with self._asking:
            try:
                yield
            finally:
                while self._held:
                    self._show(self._held.pop(0))
