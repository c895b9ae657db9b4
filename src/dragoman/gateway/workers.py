"""Tasks of a gateway, each with an owner that hears of its death; and locks that are kept only while they are used.

A task that fails in silence leaves a request without its answer.  So nothing here starts a task in any other way:
whoever starts one says what its death means.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar

from ..foundation.owning import Work

log = logging.getLogger("dragoman")

T = TypeVar("T")


def owned(work: Work[T], name: str, died: Callable[[Exception], None]) -> "asyncio.Task[T]":
    """Start a task; should it fail, that is logged, and `died` is called with what it failed of."""
    task = asyncio.create_task(work, name=name)

    def look(done: "asyncio.Task[T]") -> None:
        if not done.cancelled() and isinstance(exc := done.exception(), Exception):
            log.error("%s failed", name, exc_info=exc)
            died(exc)

    task.add_done_callback(look)
    return task


class DetachedWork:
    """Work that is finished whoever stops waiting for it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, work: Work[T], name: str = "errand") -> "asyncio.Task[T]":
        """Have something done that nobody waits for; its failure is logged."""
        return self._keep(owned(work, name, lambda exc: None))

    async def finish(self, work: Work[T], undo: Callable[[T], Work[None]] | None = None) -> T:
        """Have something done and wait for it; it is done to its end when the one who waits is cancelled.

        What then came of it, which nobody will know of, is undone by `undo`.
        """
        task = self._keep(asyncio.create_task(work, name="errand"))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if undo:
                self.start(_undone(task, undo))
            raise

    async def ended(self) -> None:
        """Wait until everything is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _keep(self, task: "asyncio.Task[T]") -> "asyncio.Task[T]":
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        return task

    def _drop(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it, or has gone


async def _undone(task: "asyncio.Task[T]", undo: Callable[[T], Work[None]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())


class Locks:
    """A lock for each key, which exists for as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[key]
