"""A server that drops whoever comes back: the pauses between the tries grow, and there is an end to them."""

import asyncio
from contextlib import asynccontextmanager
from itertools import accumulate, chain, repeat, takewhile
from urllib.parse import urlsplit

import pytest
from patience import PATIENCE
from skipped_time import skipped_time

from dragoman import ConnectionClosed, connect
from dragoman.testing import Testy

from .serving import WIRES, dial, served

pytestmark = pytest.mark.usefixtures("nothing_left")

PAUSES = (0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds before the first tries; then there are five before each
LONGEST = 5.0
SHARES = (1.5, 0.5)  # of its pause that a try waits for, at most and at least


def tries(share):
    """How many there are in that time, when each waits for this share of its pause."""
    moments = accumulate(share * pause for pause in chain(PAUSES, repeat(LONGEST)))
    return 1 + sum(1 for _ in takewhile(lambda moment: moment < PATIENCE, moments))


class Door:
    """Leads to a server until it is to drop everybody: at once, or after the first bytes of an answer."""

    def __init__(self, port, drops):
        self.port, self.drops = port, drops
        self.is_dropping = False
        self.dropped = 0
        self.ends, self.tasks = set(), set()

    async def accept(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        if self.is_dropping:
            self.dropped += 1
            if self.drops == "at once":
                writer.transport.abort()
                return
        theirs, ours = await asyncio.open_connection("127.0.0.1", self.port)
        self.ends |= {writer, ours}
        await asyncio.gather(self._copy(reader, ours), self._copy(theirs, writer, cuts=self.is_dropping))

    async def _copy(self, reader, writer, cuts=False):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
                if cuts:
                    break
        except OSError:
            pass  # the other half was cut
        finally:
            writer.close()

    def drop(self):
        self.is_dropping = True
        for end in self.ends:
            end.transport.abort()


@asynccontextmanager
async def door(url, drops):
    parts = urlsplit(url)
    way = Door(parts.port, drops)
    server = await asyncio.start_server(way.accept, "127.0.0.1", 0)
    try:
        yield parts._replace(netloc=f"127.0.0.1:{server.sockets[0].getsockname()[1]}").geturl(), way
    finally:
        server.close()
        for end in way.ends:
            end.transport.abort()
        await asyncio.gather(*way.tasks)


@pytest.mark.parametrize("drops", ["at once", "after an answer"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_drops_everybody_is_tried_as_often_as_the_pauses_say_and_given_up(wire, drops):
    with skipped_time() as clock:
        async with (
            served(Testy) as server,
            door(server.url(), drops) as (url, way),
            connect(await dial(wire, url, patience=PATIENCE)) as client,
        ):
            pending = (await client.new_session("/")).prompt("hello\nwait")
            await anext(pending)
            await asyncio.sleep(1)  # of that clock: whatever was on its way has arrived
            way.drop()
            begun = clock.now
            with pytest.raises(ConnectionClosed):
                await pending
            assert tries(SHARES[0]) <= way.dropped <= tries(SHARES[1])
            assert PATIENCE <= clock.now - begun <= PATIENCE + SHARES[0] * LONGEST
