"""The requests of a peer that are being answered, each in a task of its own."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any


class IncomingRequest:
    """A request of the peer, which a task of its own answers."""

    __slots__ = ("afterwards", "connection", "key", "size", "task")

    def __init__(self, connection: Any, key: int, size: int) -> None:
        self.connection = connection  # a Connection, whose module imports this one
        self.key, self.size = key, size  # of its frame, in bytes
        self.task: asyncio.Task[None] | None = None
        self.afterwards: list[Callable[[], None]] | None = None  # what is done once it is answered


# The request being answered: in its task, and in every task that one starts.
answering: ContextVar[IncomingRequest] = ContextVar("answering")


def being_answered() -> IncomingRequest | None:
    """The request that is answered by this task, or by one that has started it; None where none is."""
    found = answering.get(None)
    return found if found and found.key in found.connection.incoming else None
