"""The experiment behind `test_drops`, at whatever size: turns that are cut at random offsets all the time."""

import asyncio
import itertools

from dragoman import connect

from .cast import Counting, Noting, counted
from .cutting import cut
from .serving import dial, served

COUNT = 3000  # updates of a turn
LONGEST = 50_000  # bytes between two cuts; an HTTP/2 frame holds 16 KiB and is nothing until it is whole


async def survive(wire, cuts, limit):
    """Have turn after turn cut, until there were as many cuts; each has to arrive whole, once and in order."""
    made = 0
    async with asyncio.timeout(limit), served(Counting) as server:
        for seed in range(cuts):
            async with cut(server.url(), seed, longest=LONGEST) as (url, cutter):
                async with connect(await dial(wire, url), Noting()) as client:
                    await play_turns(client, (wire, seed))
                    cutter.stop_cutting()
                made += cutter.cuts
            if made >= cuts:
                break
    assert made >= cuts


async def play_turns(client, which):
    """Five turns, of which every word, every file and every tick arrives once and in order."""
    session, ticks = await client.new_session("/"), itertools.count()

    def tick():
        client.agent.notify("_counting/tick", {"number": next(ticks)})

    for turn in range(1, 6):
        numbers, reason = await counted(session, COUNT, tick)
        assert (numbers, reason) == (list(range(COUNT)), "end_turn"), (which, turn)
        assert client.asked == [f"/{n}" for n in range(0, COUNT, 50)] * turn, (which, turn)
        heard = (await client.agent.request("_counting/ticks"))["ticks"]
        assert heard == list(range(COUNT // 25 * turn)), (which, turn)
