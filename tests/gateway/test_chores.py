"""What a gateway does again and again goes on whatever happens, and says how it is."""

import asyncio
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.gateway.chores import Chore, GatewayChores
from dragoman.gateway.gateway import Gateway

from .ageing import Clock
from .house import hosting, until


async def test_a_chore_that_fails_or_is_cancelled_goes_on_and_says_so_meanwhile() -> None:
    chores, wrong = GatewayChores(), [True]
    done = asyncio.Event()

    async def round() -> None:
        if wrong[0]:
            raise TimeoutError("the disk does not answer")
        done.set()

    chore = Chore("upkeep", round, 0.001)
    chores.begin(chore)
    await until(chores.troubles)
    assert chores.troubles() == ["upkeep fails: the disk does not answer"]
    wrong[0] = False
    await asyncio.wait_for(done.wait(), PATIENCE)
    await until(lambda: not chores.troubles())
    (running,) = [task for task in asyncio.all_tasks() if task.get_name() == "upkeep"]
    running.cancel()
    await asyncio.wait([running])
    done.clear()
    await asyncio.wait_for(done.wait(), PATIENCE)
    await chores.end()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "upkeep"]


async def test_what_many_sessions_need_is_written_in_one_commit(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        for session in [await ann.new_session(tmp_path) for _ in range(20)]:
            await session.prompt("hello")
        await house.gateway.chores.end()
        before = commits(house.gateway)
        await house.gateway.upkeep()
        assert 1 <= commits(house.gateway) - before <= 3


def commits(gateway: Gateway) -> int:
    *_, count = gateway.engine.metrics()["dragoman_log_commit_seconds"].lines("x")
    return int(count.split()[-1])


async def test_a_chore_that_hangs_is_in_trouble_until_it_ends_a_round(caplog: pytest.LogCaptureFixture) -> None:
    clock, go_on = Clock(), asyncio.Event()
    began = asyncio.Event()

    async def round() -> None:
        began.set()
        await go_on.wait()

    chores = GatewayChores()
    chores.begin(Chore("upkeep", round, 0.001, late=30, clock=clock))
    await asyncio.wait_for(began.wait(), PATIENCE)
    assert not chores.troubles()
    clock.now += 40
    assert chores.troubles() == ["upkeep has finished no round for 40 s"]
    go_on.set()
    await until(lambda: not chores.troubles())
    await chores.end()
    assert not caplog.records
