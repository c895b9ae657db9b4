"""Two asyncio streams as a wire, where they break, fill up or stay silent; tests/behaviour runs over them too."""

import asyncio
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from dragoman import AgentStartError, ConnectionClosed, connect, serve_on, streams
from dragoman.testing import Testy

pytestmark = pytest.mark.usefixtures("nothing_left")


@asynccontextmanager
async def served():
    """The client's end of a socket that Testy serves at the other end."""
    ours, theirs = socket.socketpair()
    serving = asyncio.create_task(serve_on(Testy, streams(*await asyncio.open_connection(sock=theirs))))
    async with asyncio.timeout(20):
        yield await asyncio.open_connection(sock=ours)
        await serving


async def test_an_agent_behind_two_streams_takes_turns():
    async with served() as (reader, writer), connect(streams(reader, writer)) as client:
        session = await client.new_session("/")
        assert (await session.prompt("echo hello")).stop_reason == "end_turn"


async def test_the_streams_of_a_process_are_a_wire():
    program = "from dragoman import serve; from dragoman.testing import Testy; serve(Testy)"
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, **pipes)
    async with asyncio.timeout(60), connect(streams(process.stdout, process.stdin)) as client:
        session = await client.new_session("/")
        assert (await session.prompt("flood 5000 1000")).stop_reason == "end_turn"
    assert await process.wait() == 0


async def test_megabytes_pass_both_ways_in_order():
    async with served() as (reader, writer), connect(streams(reader, writer)) as client:
        session = await client.new_session("/")
        payload = {"text": "ü" * 3_000_000}
        assert await client.agent.request("_testy/ping", payload) == {"pong": payload}
        assert (await session.prompt("flood 5000 1000")).stop_reason == "end_turn"


async def test_a_peer_that_closes_its_stream_ends_the_connection():
    ours, theirs = socket.socketpair()
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    with pytest.raises(AgentStartError, match="hung up"):
        async with connect(streams(reader, writer)):
            pass
    assert writer.is_closing()


async def test_a_peer_that_vanishes_in_a_turn_fails_it():
    async with served() as (reader, writer), connect(streams(reader, writer)) as client:
        session = await client.new_session("/")
        turn = session.prompt("wait")
        await client.agent.request("_testy/ping", None)
        writer.transport.abort()
        with pytest.raises(ConnectionClosed):
            await turn


async def test_a_peer_that_never_reads_does_not_hold_up_closing():
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        wire = streams(reader, writer)
        wire.listen(lambda frames: None, lambda: None)
        wire.send([b"x" * 10_000_000])
        async with asyncio.timeout(20):
            await wire.close()
