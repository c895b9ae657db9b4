"""Who may write on the terminal: the turn, or the question that waits for an answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ... import schema as s

Event = s.SessionUpdate | s.PromptResponse


class TerminalLock:
    """Shows what happens in order, and holds it back for as long as somebody is being asked."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self._asking = asyncio.Lock()
        self._held: list[Event] = []  # one at most, for whoever shows waits for `free`

    def show(self, event: Event) -> None:
        if self._asking.locked():
            self._held.append(event)
        else:
            self._show(event)

    async def free(self) -> None:
        """Wait until nobody is being asked."""
        while self._asking.locked():
            async with self._asking:
                pass

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Ask somebody: nothing else is shown meanwhile."""
        async with self._asking:
            try:
                yield
            finally:
                while self._held:
                    self._show(self._held.pop(0))
