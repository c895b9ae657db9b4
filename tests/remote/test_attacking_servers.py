"""A client of a server that attacks it: an outcome in time, bounded memory, nothing left, others not held up."""

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.client.inbox import Inbox
from dragoman.errors import Error
from dragoman.testing import Echo
from dragoman.transports.remote import limits
from dragoman.transports.remote.client.http import dial_http

from .attacking_servers import ATTACKS, flood
from .attacks import ATTACKS as MIRRORED
from .foreign import listening, response, told
from .hostile_servers import MIB, Server, StreamServer, chunk, chunked, events
from .measured_client import memory
from .serving import dial, served

pytestmark = pytest.mark.usefixtures("nothing_left")
SILENCE = 2.0  # seconds that a server may take in the middle of a message; 45 by default
SECONDS = 10  # of the processor, for all of a test
MOST = 64 * MIB  # bytes that any server may cost
WAIT = 1.0  # seconds after which a prompt that just waits is given up


@asynccontextmanager
async def bounded():
    """What happens in the block takes little memory, and little time of this process."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    before, began = memory("VmRSS"), time.process_time()
    async with asyncio.timeout(PATIENCE):
        yield
    assert time.process_time() - began < SECONDS
    assert memory("VmHWM") - before < MOST


def test_every_attack_on_the_server_is_turned_round():
    assert set(ATTACKS) == set(MIRRORED)
    assert len(ATTACKS) == 29


async def outcome_of_a_prompt(target, expected):
    """The reason the turn ended for, `error`, or `waits` when it was given up after a while."""
    try:
        async with connect(target) as client:
            session = await client.new_session("/")
            async with asyncio.timeout(WAIT if expected == "waits" else None):
                return (await session.prompt("go")).stop_reason
    except TimeoutError:
        return "waits"
    except Error:
        return "error"


async def work(url, is_over):
    """Turns with a server that means well, in the same process, until it is over."""
    async with connect(await dial("http/1.1", url)) as client:
        session = await client.new_session("/")
        while True:
            assert (await session.prompt("still here")).stop_reason == "end_turn"
            if is_over():
                return


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_server_that_attacks_its_client_gains_nothing(name, monkeypatch):
    monkeypatch.setattr(limits, "SILENCE", SILENCE)
    make, expected = ATTACKS[name]
    scheme = "ws" if name.startswith("websocket") else "http"
    async with bounded(), served(Echo) as peer, listening(make(), scheme) as url:
        attacked = asyncio.create_task(outcome_of_a_prompt(url, expected))
        try:
            await work(peer.url(), attacked.done)
            assert await attacked == expected
        finally:
            attacked.cancel()
            await asyncio.wait([attacked])


async def test_messages_left_half_way_have_one_budget(monkeypatch):
    """Six answers of 15 MB each that do not end, on one connection."""
    monkeypatch.setattr(limits, "SILENCE", SILENCE)
    make, _ = ATTACKS["bodies_left_half_way"]
    async with bounded(), listening(make()) as url, connect(url) as client:
        session = await client.new_session("/")
        asked = [client.agent.request("session/prompt", {"sessionId": session.id, "prompt": []}) for _ in range(6)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(outcome, Error) for outcome in outcomes)


@pytest.mark.parametrize(
    "line", [b":\n", b": nothing to be said here\n\n", b"data:x\n", b"data:%b" % (b"x" * 65536)]
)
@pytest.mark.parametrize("form", [StreamServer, Server])
async def test_an_event_stream_that_says_nothing_is_given_up(form, line):
    async def odd(server, request, writer):
        if form is Server:
            writer.write(chunked())
        else:
            writer.write(response(status="202 Accepted"))
            writer = server.streams[None]
        await flood(writer, chunk(line * (65536 // len(line) + 1)))

    async with bounded(), listening(form(odd)) as url:
        assert await outcome_of_a_prompt(await dial_http(url, limit=2 * MIB), "error") == "error"


@pytest.mark.parametrize("form", [StreamServer, Server])
async def test_updates_nobody_reads_wait_in_the_server(form, monkeypatch):
    """An answer that is an event stream without end, to a prompt whose updates are not taken."""
    for method in (Inbox.__init__, Inbox.resize):
        monkeypatch.setitem(method.__kwdefaults__, "disk", MOST // 16)
    written = 0
    stuck = asyncio.Event()

    async def odd(server, request, writer):
        nonlocal written
        writer.write(chunked())
        data = chunk(events(*[told("x" * 1000)] * 50))
        while True:
            writer.write(data)
            written += len(data)
            try:
                async with asyncio.timeout(1):
                    await writer.drain()
            except TimeoutError:
                stuck.set()
                raise ConnectionResetError from None

    async with bounded(), listening(form(odd)) as url, connect(url) as client:
        turn = (await client.new_session("/")).prompt("go")
        await stuck.wait()
        assert written < MOST
        async for _ in turn:
            break
