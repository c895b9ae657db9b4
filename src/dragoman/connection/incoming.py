"""The peer's requests being answered, each by a task of its own or by the peer to which it was passed on."""

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..foundation.owning import guarded

if TYPE_CHECKING:
    from .connection import Connection


class IncomingRequest:
    """A request of the peer that a task of its own answers."""

    __slots__ = ("afterwards", "connection", "key", "size", "task")

    def __init__(self, connection: "Connection", key: int, size: int) -> None:
        self.connection = connection
        self.key, self.size = key, size  # of its frame, in bytes
        self.task: asyncio.Task[None] | None = None
        self.afterwards: list[Callable[[], None]] | None = None  # called once it is answered


# The request being answered: set in its task, and inherited by every task that this one starts.
answering: ContextVar[IncomingRequest] = ContextVar("answering")


def being_answered() -> IncomingRequest | None:
    """The request that this task answers, or the task that started it; None if there is none."""
    found = answering.get(None)
    return found if found and found.key in found.connection.incoming else None


class PassedOn(dict[int, Callable[[], None]]):
    """The requests that were passed on, by their keys, each with the function that cancels it."""

    _none_left: asyncio.Event | None = None  # set while a caller waits for it

    def settle(self, key: int) -> bool:
        """Forget a request, since it is answered now; returns whether it was still open."""
        was_open = self.pop(key, None) is not None
        if self._none_left and not self:
            self._none_left.set()
        return was_open

    async def end(self, grace: float) -> None:
        """Wait a short time for the answers, then cancel the remaining requests."""
        if self:
            self._none_left = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._none_left.wait()
            for cancel in list(self.values()):
                guarded(cancel)
