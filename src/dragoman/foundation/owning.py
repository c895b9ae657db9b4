"""Tasks that own the things they acquire and clean up.

A caller can be cancelled at any await, once or at every one that follows.  So nothing is acquired or released in
the caller's own task: another task does that, and the caller only waits.  Cancelling the caller ends the wait.  The
owning task is cancelled once at most, and its cleanup runs to the end.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

log = logging.getLogger("dragoman")

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

_owners: set["asyncio.Task[object]"] = set()  # the event loop itself keeps weak references only


def own(work: Work[T], name: str | None = None) -> "asyncio.Task[T]":
    """Start a task that lives until its work is done, whether or not somebody keeps a reference to it."""
    try:
        task = asyncio.get_running_loop().create_task(work, name=name)
    except RuntimeError:  # no loop runs here, or it is closed: the work will never be done
        work.close()
        raise
    if not task.done():
        _owners.add(task)
        task.add_done_callback(_owners.discard)
    return task


async def finish(cleanup: Work[T]) -> T:
    """Clean up in a task of its own and wait for it; cancelling the caller never cancels the cleanup."""
    return await _awaited(own(cleanup, "cleanup"))


async def take(taking: Work[T], release: Callable[[T], Work[object]] | None = None, *, cancels: bool = True) -> T:
    """Acquire something in a task of its own.

    Cancelling the caller cancels that task once (unless `cancels` is false) and waits for its end.  If it acquired
    the thing all the same, nobody would own the thing, so `release` gives it back.
    """
    task = own(taking)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            await finish(_give_back(task, release, cancels))
        raise


async def side_by_side(works: Iterable[Callable[[], Work[None]]], most: int) -> None:
    """Run several tasks, a limited number at a time, begun in their order.

    The first failure ends the others that have begun, and no further one begins.
    """
    waiting = iter(works)

    async def one_after_the_other() -> None:
        for work in waiting:
            await work()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(most):
                group.create_task(one_after_the_other())
    except BaseExceptionGroup as exc:
        raise exc.exceptions[0] from None


async def _give_back(
    task: "asyncio.Task[T]", release: Callable[[T], Work[object]] | None = None, cancels: bool = True
) -> None:
    if cancels:
        task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None and release is not None:
        await release(task.result())


async def _awaited(task: "asyncio.Task[T]") -> T:
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)  # no caller waits for it any more
        raise


def _log_failure(task: "asyncio.Task[object]") -> None:
    if not task.cancelled() and (exc := task.exception()):
        log.error("a cleanup failed", exc_info=exc)


class Cleanup:
    """A cleanup that runs once, in a task of its own, however many callers ask for it and then stop waiting.

    It does nothing in a fork of the process that made it: the fork does not own what would be cleaned up.
    """

    def __init__(self, work: Callable[[], Work[None]]) -> None:
        self._work = work
        self._process = os.getpid()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    def begin(self) -> "asyncio.Task[None]":
        """Start the cleanup, unless it has begun already."""
        if self._task is None:
            self._task = own(self._work() if os.getpid() == self._process else _nothing(), "cleanup")
        return self._task

    async def __call__(self) -> None:
        """Start the cleanup if need be, and wait until it is done."""
        await _awaited(self.begin())


async def _nothing() -> None: ...


class Held(Generic[T]):
    """A context manager that enters and leaves another one in a task of its own."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._process = os.getpid()
        self._leaving: asyncio.Future[None]
        self._owner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> T:
        if self._owner is not None:
            raise RuntimeError("this was used in an `async with` before: make another one")
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[T] = loop.create_future()
        self._leaving = loop.create_future()
        self._owner = own(self._hold(entered), "owner")
        try:
            waited_for: list[asyncio.Future[Any]] = [self._owner, entered]
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await finish(_give_back(self._owner))
            raise
        return entered.result() if entered.done() else _failed(self._owner)

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._owner is None:
            raise RuntimeError("this was not entered: use it in an `async with`")
        if os.getpid() != self._process:  # a fork, which has not entered anything
            return
        if self._owner.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError("this was entered in another event loop, and has to be left there")
        if not self._leaving.done():
            self._leaving.set_result(None)
        await _awaited(self._owner)

    async def _hold(self, entered: "asyncio.Future[T]") -> None:
        async with self._manager as value:
            entered.set_result(value)
            await self._leaving


def _failed(owner: "asyncio.Task[None]") -> NoReturn:
    owner.result()  # raises the reason why nothing was entered
    raise RuntimeError("the context manager was left before it was entered")


class Visits:
    """The tasks of a server, one for each of its connections; they end with it.

    The stream server of asyncio starts tasks itself if it is given a coroutine function, and nobody owns them: when
    the program ends, the tasks of open connections are cancelled, and that is logged as an error.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Work[None], name: str) -> None:
        task = own(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have cleaned up."""
        await asyncio.sleep(0)  # a task that is cancelled before it begins cleans nothing up
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def cancel_once(task: "asyncio.Task[object]") -> None:
    """Cancel a task unless it is being cancelled already, so that its cleanup is not disturbed."""
    if not task.cancelling():
        task.cancel()


def guarded(callback: Callable[..., None], *args: object) -> None:
    """Call a callback and log its failure, so that the callbacks after it are called all the same."""
    try:
        callback(*args)
    except BaseException:
        log_failure("a callback of the connection failed")


def log_failure(told: str, *names: object) -> None:
    """Log the exception being handled; a log that cannot be written does no further harm."""
    with contextlib.suppress(Exception):
        log.exception(told, *names)
