"""A connection is cut wherever it hurts, and nobody notices: nothing lost, nothing twice, everything in order."""

import asyncio
import os

import pytest

from dragoman import connect

from .cast import Counting, Noting, counted
from .cutting import cut
from .serving import WIRES, dial, served

CUTS = int(os.environ.get("DRAGOMAN_CUTS", "300"))
COUNT = 3000  # updates of a turn
LONGEST = 50_000  # bytes between two cuts; an HTTP/2 frame holds 16 KiB and is nothing until it is whole
LIMIT = 100  # seconds


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_survives_cuts_at_random_offsets(wire, nothing_left):
    cuts = 0
    async with asyncio.timeout(LIMIT), served(Counting) as server:
        for seed in range(CUTS):
            async with cut(server.url(), seed, longest=LONGEST) as (url, cutter):
                client = Noting()
                async with connect(await dial(wire, url), client):
                    session = await client.new_session("/")
                    for turn in range(1, 6):
                        numbers, reason = await counted(session, COUNT)
                        assert (numbers, reason) == (list(range(COUNT)), "end_turn"), (wire, seed, turn)
                        assert client.asked == [f"/{n}" for n in range(0, COUNT, 50)] * turn, (wire, seed, turn)
                    cutter.stop_cutting()
                cuts += cutter.cuts
            if cuts >= CUTS:
                break
    assert cuts >= CUTS
