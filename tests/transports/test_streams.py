"""Two asyncio streams as a wire, where they break, fill up or stay silent; tests/behaviour runs over them too."""

import asyncio
import socket
import ssl
import sys
from contextlib import asynccontextmanager

import pytest
from gateway.certificates import Authority

from dragoman import AgentStartError, ConnectionClosed, LocalProtocolError, connect, serve_on, streams
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


async def test_streams_over_tls_are_a_wire_as_docs_streams_has_it(tmp_path):
    authority, serving = Authority(tmp_path), []
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*authority.server)
    client_context = ssl.create_default_context(cafile=authority.certificate)

    def serve_one(reader, writer):
        serving.append(asyncio.create_task(serve_on(Testy, streams(reader, writer))))

    async with (
        asyncio.timeout(60),
        await asyncio.start_server(serve_one, "127.0.0.1", 0, ssl=server_context) as server,
    ):
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context)
        async with connect(streams(reader, writer)) as client:
            session = await client.new_session("/")
            assert (await session.prompt("flood 5000 1000")).stop_reason == "end_turn"
        await asyncio.gather(*serving)


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


async def test_a_wire_carries_one_connection_and_says_so():
    async with served() as (reader, writer):
        wire = streams(reader, writer)
        async with connect(wire) as client:
            with pytest.raises(LocalProtocolError, match="has carried a connection before"):
                async with connect(wire):
                    pass
            assert (await (await client.new_session("/")).prompt("echo still here")).stop_reason == "end_turn"
        for again in (connect(wire).__aenter__, lambda: serve_on(Testy, wire)):
            with pytest.raises(LocalProtocolError, match="has carried a connection before"):
                await again()


async def test_a_stream_that_somebody_else_reads_from_is_named_as_the_reason():
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    reading = asyncio.create_task(reader.read(1))
    await asyncio.sleep(0)
    with theirs, pytest.raises(AgentStartError, match="another coroutine is already waiting"):
        async with connect(streams(reader, writer)):
            pass
    await reading


async def test_a_peer_that_never_reads_does_not_hold_up_closing():
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        wire = streams(reader, writer)
        wire.listen(lambda frames: None, lambda: None)
        wire.send([b"x" * 10_000_000])
        async with asyncio.timeout(20):
            await wire.close()
