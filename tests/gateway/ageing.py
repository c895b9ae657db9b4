"""A gateway that has been at work for long is no larger than one that has just begun."""

import asyncio
import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from leftovers import children, descriptors
from patience import PATIENCE

from dragoman.gateway.access.limits import Limits

from .house import House, Watcher, hosting

FRAGILE = Path(__file__).with_name("fragile.py")
ROUND = 5.0  # seconds between two rounds of upkeep
BETWEEN = 30.0  # seconds between two reconnects
HOUR = 3600.0
OTHERS = 60  # reconnects after which a session is left behind that nobody needs
FIRST = 2 * OTHERS - 1  # reconnect after which everything there can be is there


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Figures:
    """How much there is of everything a gateway could leave behind."""

    def __init__(self) -> None:
        gc.collect()
        self.descriptors, self.tasks = len(descriptors()), len(asyncio.all_tasks())
        self.processes = len(children())
        found = (type(thing) for thing in gc.get_objects())
        self.objects = Counter(f"{kind.__module__}.{kind.__name__}" for kind in found if _is_ours(kind))
        self.kilobytes = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def check(self, before: "Figures", cycles: int, kilobytes: int) -> None:
        """There is no more than before, give or take what ends with a timer; memory has grown by less than this."""
        assert self.descriptors <= before.descriptors, (before.descriptors, self.descriptors)
        assert self.tasks <= before.tasks, asyncio.all_tasks()
        assert self.processes <= before.processes
        more = self.objects - before.objects
        assert max(more.values(), default=0) < cycles // 4, more  # what is left behind is so once a cycle or two
        grown = self.kilobytes - before.kilobytes
        assert grown < kilobytes, f"{grown} KiB more"


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith(("dragoman.gateway", "dragoman.host", "dragoman.connection"))


def command(directory: Path) -> list[str]:
    """An agent that cannot close its sessions, as many cannot."""
    return [sys.executable, "-S", str(FRAGILE), str(directory / "plain")]


async def settled(house: House, clients: int) -> None:
    """Wait until only so many clients are connected, no turn runs and nothing is left to do."""
    async with asyncio.timeout(PATIENCE):
        while len(house.web._wires) > clients:  # noqa: ASYNC110 - nobody is told when a wire has ended
            await asyncio.sleep(0.01)
        for session in list(house.gateway.live.values()):
            await session.turns.finished()
        await house.gateway._errands.ended()
        while any(task.get_name() in ("turns", "session/prompt") for task in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def open_and_close(directory: Path, cycles: int, kilobytes: int) -> Figures:
    """Open a session, prompt it and close it, again and again; half of them with a connection of their own."""
    first = max(cycles // 10, 5)
    limits = Limits(kept_each=cycles + 1)
    async with hosting(directory, command(directory), limits=limits) as house, house.visit() as ann:
        for cycle in range(cycles):
            if cycle % 2:
                await _once(ann, directory)
            else:
                async with house.visit() as other:
                    await _once(other, directory)
            if cycle == first:
                await settled(house, clients=1)
                before = Figures()
        await settled(house, clients=1)
        after = Figures()
        after.check(before, cycles - first, kilobytes)
    return after


async def _once(client: Watcher, directory: Path) -> None:
    session = await client.new_session(directory)
    assert (await session.prompt("hello")).stop_reason == "end_turn"
    await client.agent.request("session/close", {"sessionId": session.id})
    client.told.clear()
    client.heard.clear()


async def reconnect(directory: Path, hours: float, kilobytes: int) -> Figures:
    """Have a client drop and come back every half minute for hours of a clock that is not the wall's."""
    clock, times = Clock(), int(hours * HOUR / BETWEEN)
    async with hosting(directory, command(directory), clock=clock) as house:
        async with house.visit() as ann:
            session = (await ann.new_session(directory)).id
        for number in range(times):
            await _come_back(house, directory, session, number)
            await _pass(house, clock)
            if number == FIRST:
                await settled(house, clients=0)
                before = Figures()
        await settled(house, clients=0)
        after = Figures()
        after.check(before, times - FIRST, kilobytes)
    return after


async def _come_back(house: House, directory: Path, session: str, number: int) -> None:
    """Take the session up and go on with it; sometimes drop in the middle, sometimes leave another one behind."""
    watcher = Watcher(client="the same")
    async with house.visit(client=watcher, wire="http" if number % 5 == 4 else "websocket"):
        resumed = await watcher.resume_session(session, directory)
        if number % 3 == 0:
            assert (await resumed.prompt("hello")).stop_reason == "end_turn"
        elif number % 3 == 1:
            resumed.prompt("hello")  # and is gone
        if number % OTHERS == OTHERS // 2:
            await watcher.new_session(directory)


async def _pass(house: House, clock: Any) -> None:
    for _ in range(int(BETWEEN / ROUND)):
        clock.now += ROUND
        await house.gateway.upkeep()
