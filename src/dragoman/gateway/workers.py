"""Tasks of a gateway, each with an owner that is told of its failure, and locks that exist only while in use.

A task that fails silently leaves a request without an answer.  So the gateway starts tasks only here, and the
caller says what a failure means.
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
    """Start a task; a failure is logged, and `died` is called with it."""
    task = asyncio.create_task(work, name=name)

    def look(done: "asyncio.Task[T]") -> None:
        if not done.cancelled() and isinstance(exc := done.exception(), Exception):
            log.error("%s failed", name, exc_info=exc)
            died(exc)

    task.add_done_callback(look)
    return task


class DetachedWork:
    """Tasks that are finished even if nobody waits for them any more."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, work: Work[T], name: str = "errand") -> "asyncio.Task[T]":
        """Run a task in the background; its failure is logged."""
        return self._keep(owned(work, name, lambda exc: None))

    async def finish(self, work: Work[T], undo: Callable[[T], Work[None]] | None = None) -> T:
        """Run a task and wait for it; it continues to its end if the caller is cancelled.

        In that case, `undo` undoes its result.
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
            task.exception()  # the caller has the result, or has gone


async def _undone(task: "asyncio.Task[T]", undo: Callable[[T], Work[None]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())


class Locks:
    """A lock for each key, which exists while it is held or awaited."""

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
