"""A wire inside this process: ordered, bounded, and over for both ends at once."""

import asyncio
from typing import Any

import pytest

from dragoman import ConnectionClosed
from dragoman.transports import HIGH_WATER
from dragoman.transports.memory import MemoryTransport, pipe

pytestmark = pytest.mark.usefixtures("nothing_left")


class Ear:
    """Hears what comes out of one end."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.frames: list[Any] = []
        self.ended = 0
        transport.listen(self.frames.extend, self._end)

    def _end(self) -> None:
        self.ended += 1


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_frames_arrive_in_order_and_unchanged() -> None:
    left, right = pipe()
    ear = Ear(right)
    left.send([b"one", b"two\nlines"])
    left.send([b"three"])
    await turns()
    assert ear.frames == [b"one", b"two\nlines", b"three"]


async def test_what_was_sent_before_anybody_listened_is_not_lost() -> None:
    left, right = pipe()
    left.send([b"early"])
    await turns()
    ear = Ear(right)
    await turns()
    assert ear.frames == [b"early"]


async def test_what_was_sent_before_hanging_up_is_heard_and_then_the_end() -> None:
    left, right = pipe()
    ear = Ear(right)
    left.send([b"last words"])
    await left.close()
    await turns()
    assert (ear.frames, ear.ended) == ([b"last words"], 1)
    assert isinstance(await right.why_ended(), ConnectionClosed)


async def test_both_ends_end_once_however_often_they_are_closed() -> None:
    left, right = pipe()
    ears = Ear(left), Ear(right)
    for end in (left, right, left):
        await end.close()
    await turns()
    assert [ear.ended for ear in ears] == [1, 1]
    left.send([b"too late"])
    await turns()
    assert ears[1].frames == []


async def test_nothing_is_heard_while_held_and_all_of_it_afterwards() -> None:
    left, right = pipe()
    ear = Ear(right)
    right.hold()
    left.send([b"one"])
    left.send([b"two"])
    await turns()
    assert ear.frames == []
    assert left.queued == 6
    right.resume()
    await turns()
    assert ear.frames == [b"one", b"two"]
    assert left.queued == 0


async def test_a_sender_waits_until_the_other_end_has_taken_most_of_it() -> None:
    left, right = pipe()
    ear = Ear(right)
    right.hold()
    left.send([b"x" * HIGH_WATER])
    draining = asyncio.create_task(left.drain())
    await turns()
    assert not draining.done()
    right.resume()
    async with asyncio.timeout(5):
        await draining
    assert len(ear.frames) == 1


async def test_a_sender_that_waits_is_let_go_when_the_other_end_is_gone() -> None:
    left, right = pipe()
    right.hold()
    left.send([b"x" * HIGH_WATER])
    draining = asyncio.create_task(left.drain())
    await turns()
    await right.close()
    async with asyncio.timeout(5):
        await draining


async def test_the_end_is_heard_though_nobody_wanted_more() -> None:
    left, right = pipe()
    ear = Ear(right)
    right.hold()
    left.send([b"last words"])
    await left.close()
    await turns()
    assert (ear.frames, ear.ended) == ([b"last words"], 1)
