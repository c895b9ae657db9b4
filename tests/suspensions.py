"""Drives a call step by step and cancels it at its k-th suspension, for every k.

A suspension is an await that waits: of the call itself, or of any task that was started on its behalf.

early   the caller is cancelled at the moment of the suspension
late    when what is waited for has just happened, so that the result is there and lost
level   early, and again whenever the caller suspends after that, as anyio does it
"""

import asyncio
import contextlib
import gc
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Literal

from leftovers import descendants, descriptors

Way = Literal["early", "late", "level"]
WAYS: tuple[Way, ...] = ("early", "late", "level")
PATIENCE = 20.0  # seconds for what a cancelled call leaves behind to be gone
MOST = 1000  # suspensions
SOME = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987]


_driven: ContextVar["Driver"] = ContextVar("driven")


class Driver:
    """Runs a call as a task, counts suspensions, and cancels that task at one of them."""

    def __init__(self, at: int, way: Way) -> None:
        self._at, self._way = at, way
        self._seen = 0
        self._caller: asyncio.Task[Any] | None = None

    @property
    def has_cancelled(self) -> bool:
        return self._seen >= self._at

    async def run(self, call: Coroutine[Any, Any, Any]) -> None:
        """Run a call to its end, cancelled or not."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(self._make_task)
        driven = _driven.set(self)
        try:
            self._caller = loop.create_task(call)
            _driven.reset(driven)
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait([self._caller])
        finally:
            loop.set_task_factory(None)
        if not self._caller.cancelled():
            self._caller.result()

    def _make_task(self, loop: Any, work: Any, **options: Any) -> "asyncio.Task[Any]":
        on_behalf = _driven.get(None) is self  # and not on that of a server in this process, say
        return asyncio.Task(self._watched(work) if on_behalf else work, loop=loop, **options)

    @types.coroutine
    def _watched(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        failure: BaseException | None = None
        while True:
            try:
                waits_for = work.send(None) if failure is None else work.throw(failure)
            except StopIteration as end:
                return end.value
            failure = None
            self._suspended(waits_for)
            try:
                yield waits_for
            except BaseException as exc:
                failure = exc

    def _suspended(self, waits_for: "asyncio.Future[Any] | None") -> None:
        caller = self._caller
        assert caller
        if caller.done():
            return
        self._seen += 1
        if self._seen == self._at:
            if self._way == "late" and waits_for is not None:
                waits_for.add_done_callback(lambda _: caller.cancel())
            else:
                caller.cancel()
        elif self._way == "level" and self.has_cancelled and asyncio.current_task() is caller:
            caller.cancel()


async def cancel_everywhere(call: Callable[[], Coroutine[Any, Any, Any]], way: Way, *, sparse: bool = False) -> int:
    """Cancel a call at each of its suspensions; each time nothing may be left, and the next call has to work.

    Gives how many suspensions there were.  A `sparse` drive leaves out ever more of them, for calls that take long.
    """
    await call()  # what is loaded or opened once is there by now
    await asyncio.to_thread(int)
    before = await settled()
    for at in SOME if sparse else range(1, MOST):
        driver = Driver(at, way)
        await driver.run(call())
        if not driver.has_cancelled:
            return at - 1
        assert not (left := await _left(before)), f"cancelled {way} at suspension {at}: {left}"
        await call()
        assert not (left := await _left(before)), f"called again after {way} at suspension {at}: {left}"
    raise AssertionError(f"more than {MOST} suspensions")


async def _left(before: set[tuple[int, str]]) -> list[tuple[int, str]]:
    """What is there now and was not, or the other way round; processes take a moment to be gone.

    A process that was there and is gone was about to end already: a supervisor exits after its last word.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        now = await settled()
        changed = sorted(item for item in now ^ before if item in now or item[1] != "process")
        if not changed or asyncio.get_running_loop().time() > deadline:
            return changed
        await asyncio.sleep(0.01)


async def settled() -> set[tuple[int, str]]:
    """The descriptors and processes there are when no other task is left."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while others := asyncio.all_tasks() - {asyncio.current_task()} - _bystanders:
        left = deadline - asyncio.get_running_loop().time()
        assert left > 0, f"tasks do not end: {others}"
        await asyncio.wait(others, timeout=left)
    for _ in range(3):  # what was closed is let go of in the next turns of the loop
        await asyncio.sleep(0)
    gc.collect()
    return descriptors() | {(pid, "process") for pid in descendants()}


_bystanders: set["asyncio.Task[Any]"] = set()


@contextlib.contextmanager
def bystanders() -> Generator[None]:
    """What runs by now belongs to the test itself, and may go on."""
    added = asyncio.all_tasks() - _bystanders
    _bystanders.update(added)
    try:
        yield
    finally:
        _bystanders.difference_update(added)
