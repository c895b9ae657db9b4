"""Several things done side by side: in their order, so many at a time, and none is left when one fails."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from dragoman.foundation.owning import side_by_side

pytestmark = pytest.mark.usefixtures("nothing_left")


class Works:
    """Ten things to do; each waits until it is let go, and cleans up with an await."""

    def __init__(self, fails: int | None = None) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.gates = [asyncio.Event() for _ in range(10)]
        self._fails = fails

    def __iter__(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        return iter([partial(self._do, number) for number in range(10)])

    async def _do(self, number: int) -> None:
        self.begun.append(number)
        try:
            await self.gates[number].wait()
            if number == self._fails:
                raise LookupError("this one")
        finally:
            await asyncio.sleep(0)
            self.ended.append(number)


async def settled(work: Callable[[], object]) -> None:
    """Do something, and let everything else come as far as it can."""
    work()
    for _ in range(10):
        await asyncio.sleep(0)


def started(works: Works, most: int) -> "asyncio.Task[None]":
    return asyncio.create_task(side_by_side(works, most))


async def test_things_are_begun_in_their_order_and_so_many_at_a_time() -> None:
    works = Works()
    doing = started(works, 3)
    await settled(lambda: None)
    assert works.begun == [0, 1, 2]
    await settled(works.gates[1].set)
    assert (works.begun, works.ended) == ([0, 1, 2, 3], [1])
    for gate in works.gates:
        gate.set()
    await doing
    assert works.begun == list(range(10))
    assert sorted(works.ended) == list(range(10))


async def test_the_first_that_fails_ends_the_others_and_is_what_is_raised() -> None:
    works = Works(fails=1)
    doing = started(works, 3)
    await settled(works.gates[1].set)
    with pytest.raises(LookupError, match="this one") as caught:
        await doing
    assert caught.value.__cause__ is None
    assert works.begun == [0, 1, 2]  # nobody begins any more
    assert sorted(works.ended) == [0, 1, 2]  # and who had begun has cleaned up


async def test_whoever_waits_is_cancelled_with_all_that_is_being_done() -> None:
    works = Works()
    doing = started(works, 3)
    await settled(lambda: None)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert works.begun == sorted(works.ended) == [0, 1, 2]


async def test_nothing_to_do_is_done_at_once() -> None:
    await side_by_side([], 1)
