"""Two wires joined: a side that does not read holds the other, once."""

import asyncio

from dragoman.testing import RawWire
from dragoman.transports.memory import pipe
from dragoman.transports.relay import relay

COUNT, PAD = 200, "x" * 20_000


async def test_a_side_that_does_not_read_holds_the_other_with_one_task():
    clients_end, client = pipe()
    agents_end, agent = pipe()
    near, far = RawWire(clients_end), RawWire(agents_end)
    joining = asyncio.create_task(relay(client, agent))
    near.hold()
    before = len(asyncio.all_tasks())
    for number in range(COUNT):
        far.tell("session/update", {"n": number, "pad": PAD})
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= before + 1
    assert far.queued > COUNT * len(PAD) / 2, "most of it was not taken"
    near.resume()
    async with asyncio.timeout(10):
        assert [(await near.receive())["params"]["n"] for _ in range(COUNT)] == list(range(COUNT))
        await far.hang_up()
        await joining
