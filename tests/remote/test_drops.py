"""A connection is cut wherever it hurts, and nobody notices: nothing lost, nothing twice, everything in order."""

import asyncio
import itertools
import os
from contextlib import asynccontextmanager

import pytest

from dragoman import Agent, ConnectionClosed, connect
from dragoman import schema as s
from dragoman.testing import Testy

from .cast import Counting, Noting, counted
from .cutting import cut, relay
from .serving import WIRES, dial, served

CUTS = int(os.environ.get("DRAGOMAN_CUTS", "300"))
COUNT = 3000  # updates of a turn
LONGEST = 50_000  # bytes between two cuts; an HTTP/2 frame holds 16 KiB and is nothing until it is whole
LIMIT = 100  # seconds


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_survives_cuts_at_random_offsets(wire, nothing_left):
    await survive(wire, CUTS, LIMIT)


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


@asynccontextmanager
async def reached(app, wire, **options):
    """A client of an agent, its session, and the way between the two."""
    async with (
        asyncio.timeout(30),
        served(app) as server,
        relay(server.url()) as (url, way),
        connect(await dial(wire, url, **options)) as client,
    ):
        way.home = server.port
        yield await client.new_session("/"), way


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_has_forgotten_us_is_a_clear_end(wire, nothing_left):
    async with reached(Testy, wire) as (session, way), served(Testy) as another:
        pending = session.prompt("wait")
        way.lead_to(another.port)
        way.cut()
        with pytest.raises(ConnectionClosed, match=r"status 404"):
            await pending


@pytest.mark.parametrize("wire", WIRES)
async def test_patience_runs_out_with_a_clear_error(wire, nothing_left):
    async with reached(Testy, wire, patience=0.2) as (session, way):
        pending = session.prompt("wait")
        way.lead_to(1)
        way.cut()
        with pytest.raises(ConnectionClosed, match=r"could not be restored in 0\.2 s|cannot be reached"):
            await pending


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_goes_on_while_nobody_is_there(wire, nothing_left):
    """Detached is not cancelled: what was said meanwhile is heard on the return."""
    alone, done = asyncio.Event(), asyncio.Event()

    class Persistent(Agent):
        async def answer(self, turn):
            await turn.say("before")
            await alone.wait()
            await turn.say("meanwhile")
            done.set()

    words = []
    async with reached(Persistent, wire) as (session, way):
        turn = session.prompt("go")
        async for event in turn:
            if isinstance(event, s.AgentMessageChunk):
                words.append(event.content.text)
            if not alone.is_set():
                way.lead_to(1)
                way.cut()
                alone.set()
                await done.wait()
                way.lead_to(way.home)
        assert turn.response.stop_reason == "end_turn"
    assert words == ["before", "meanwhile"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_plain_wire_that_drops_is_over(wire, nothing_left):
    async with reached(Testy, wire, resumes=False) as (session, way):
        pending = session.prompt("wait")
        way.cut()
        with pytest.raises(ConnectionClosed):
            await pending


@pytest.mark.parametrize("wire", WIRES)
async def test_hanging_up_is_no_drop(wire, nothing_left):
    """The agent ends at once and does not wait for a return."""
    ended = asyncio.Event()

    class Leaving(Agent):
        async def __aexit__(self, *_):
            ended.set()

    async with asyncio.timeout(30), served(Leaving) as server:
        async with connect(await dial(wire, server.url())):
            pass
        await ended.wait()


@pytest.mark.torture
@pytest.mark.parametrize("wire", WIRES)
async def test_a_thousand_cuts(wire, nothing_left):
    await survive(wire, cuts=1000, limit=600)
