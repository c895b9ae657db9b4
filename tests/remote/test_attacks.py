"""A server under attack goes on serving the others, keeps its memory, and hangs up on whoever only floods it.

Each attack has a server of its own: a process keeps memory that it freed, so on a shared server one attack would be
charged for the attacks before it. Here each attack is short; tests/torture has long ones, and how long others wait.
"""

import asyncio

import pytest

from .attacked import GROWTH, target, work_beside
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


@pytest.fixture
def attacked():
    with target() as server:
        yield server


@pytest.mark.parametrize("name", ATTACKS)
async def test_others_go_on_beside(name, attacked):
    wire = WIRES[sum(map(ord, name)) % len(WIRES)]
    async with asyncio.timeout(30):
        assert await work_beside(attacked, name, wire, SECONDS, hang_ups=0 if name in BORNE else 1)
    assert attacked.growth() < GROWTH
