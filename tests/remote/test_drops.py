"""A connection is cut wherever it hurts, and nobody notices: nothing lost, nothing twice, everything in order."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest

from dragoman import Agent, ConnectionClosed, connect
from dragoman import schema as s
from dragoman.testing import Testy

from .cutting import relay
from .serving import WIRES, dial, served
from .surviving import survive

CUTS = int(os.environ.get("DRAGOMAN_CUTS", "300"))
LIMIT = 100  # seconds


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_survives_cuts_at_random_offsets(wire, nothing_left):
    await survive(wire, CUTS, LIMIT)


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
