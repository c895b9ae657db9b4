"""A server under attack goes on serving the others, keeps its memory, and hangs up on whoever only floods it.

A short while of each attack; for long ones, with the times the others have to wait, see tests/torture.
"""

import asyncio

import pytest

from .attacked import MEMORY, target, work_beside
from .attacks import ATTACKS
from .serving import WIRES

SECONDS = 0.2
# What looks like a slow client, or a busy one: it has its time.
BORNE = {
    "heads_letter_by_letter",
    "bodies_letter_by_letter",
    "bodies_left_half_way",
    "many_large_heads",
    "requests_ahead_of_an_answer",
    "streams_without_a_window",
    "websocket_messages_that_never_end",
    "sockets_that_say_nothing",
}


@pytest.fixture(scope="module")
def attacked():
    with target() as server:
        yield server


@pytest.mark.parametrize("name", ATTACKS)
async def test_others_go_on_beside(name, attacked):
    wire = WIRES[sum(map(ord, name)) % len(WIRES)]
    async with asyncio.timeout(30):
        assert await work_beside(attacked, name, wire, SECONDS, hang_ups=0 if name in BORNE else 1)
    assert attacked.memory() < MEMORY
