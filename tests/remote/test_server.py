"""The server against clients that mean no good, or are just slow: one of them never holds up another."""

import asyncio
import contextlib
import socket

import pytest
from patience import PATIENCE

from dragoman import InternalError, connect
from dragoman.testing import Testy
from dragoman.transports.remote.http2 import PREFACE
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.http1 import MAX_HEAD
from dragoman.transports.remote.server.server import listening

from .attacks import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEADERS,
    POST,
    POST_OF,
    SETTINGS,
    UPGRADE,
    WINDOW,
    Socket,
    asking,
    begin,
    frame,
)
from .by_hand import INITIALIZE, JSON, by_hand
from .serving import WIRES, dial, served

pytestmark = pytest.mark.usefixtures("nothing_left")


async def exchange(server, data, *, hangs_up=False):
    """Send bytes, and hang up our side if told so; what comes back until they hang up theirs."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        if hangs_up:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", b" 400 "),
        (b"GET /acp HTTP/1.1\r\n\r\n", b" 400 "),
        (b"GET /acp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b" 400 "),
        (b"POST /acp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b" 400 "),
        (b"GET /acp HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n\r\n", b" 426 "),
        (b"GET /acp HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n", b" 400 "),
    ],
)
async def test_what_is_no_request_is_refused_and_hung_up_on(data, status):
    async with served(Testy) as server:
        answer = await exchange(server, data)
        assert status in answer.split(b"\r\n")[0]


async def test_a_head_without_measure_is_hung_up_on():
    async with served(Testy) as server:
        head = b"GET /acp HTTP/1.1\r\nHost: a\r\nX: "
        answer = await exchange(server, head + b"x" * MAX_HEAD)
        assert answer.startswith(b"HTTP/1.1 431 ")
        await exchange(server, head + b"x" * 1_000_000)  # whose answer may be lost behind what was not read


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_message_that_is_too_large_fails_its_request_alone(wire):
    async with (
        asyncio.timeout(30),
        served(Testy, limit=1_000_000) as server,
        connect(await dial(wire, server.url())) as client,
    ):
        session = await client.new_session("/")
        with pytest.raises(InternalError, match="status 413"):
            await session.prompt("x" * 8_000_000)
        assert (await session.prompt("echo still here")).stop_reason == "end_turn"


@pytest.mark.parametrize(
    "frames",
    [
        b"\x00" * 50,
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x04\x08\x00" + b"\x00" * 8,  # a window of nothing
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x05pingping",
    ],
)
async def test_frames_that_break_http2_end_that_socket_alone(frames):
    async with served(Testy) as server, connect(await dial("http/2", server.url())) as client:
        await exchange(server, PREFACE + frames)
        session = await client.new_session("/")
        assert (await session.prompt("echo still here")).stop_reason == "end_turn"


def malformed():
    """Frames of HTTP/2 that break a rule, one after the other: every kind, with what is wrong about it."""
    for kind in range(10):
        for size in (0, 1, 3, 5, 7, 9):
            for stream in (0, 1, 2):
                yield frame(kind, b"\x00" * size, stream)
    yield frame(SETTINGS, b"\x00\x05" + b"\xff" * 4)  # a frame size beyond the largest
    yield frame(SETTINGS, b"\x00\x04" + b"\xff" * 4)  # a window beyond the largest
    yield frame(SETTINGS, b"\x00\x02\x00\x00\x00\x02")  # neither push nor no push
    yield frame(SETTINGS, b"\x00" * 6, 0, 1)  # an acknowledgement that says something
    yield frame(WINDOW, b"\x00" * 4) + frame(WINDOW, b"\x7f\xff\xff\xff") * 2
    yield asking(1) + asking(1)  # a stream twice
    yield asking(3) + asking(1)  # and one that is older
    yield asking(1) + frame(DATA, b"x", 1)  # more after the end
    yield asking(1, ends=False) + frame(DATA, b"\xff" * 5, 1, 8)  # padding larger than the frame
    yield frame(HEADERS, b"\xff" * 20, 1, END_HEADERS | END_STREAM)  # no header list
    for head in ([], HEAD[1:], HEAD[:1], [*HEAD, HEAD[0]], [("x", "y"), *HEAD], [*HEAD, (":status", "200")]):
        yield asking(1, head=head)
    for name in ("X-Upper", "connection", "te", "", "a b", "content-length"):
        yield asking(1, head=[*HEAD, (name, "x")])


async def test_no_malformed_frame_is_more_than_the_end_of_its_socket(caplog):
    async with asyncio.timeout(30), served(Testy) as server:
        for frames in malformed():
            await exchange(server, PREFACE + frame(SETTINGS) + frames, hangs_up=True)
        async with connect(await dial("http/2", server.url())) as client:
            session = await client.new_session("/")
            assert (await session.prompt("echo still here")).stop_reason == "end_turn"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_head_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.http1.HEAD_TIMEOUT", 0.05)
    monkeypatch.setattr("dragoman.transports.remote.server.server.HEAD_TIMEOUT", 0.05)
    async with served(Testy) as server:
        assert await exchange(server, b"GET /acp HTTP/1.1\r\nHost:") == b""
        assert await exchange(server, b"") == b""


@pytest.mark.parametrize("wire", WIRES)
async def test_thousands_of_messages_of_one_client_all_arrive(wire):
    count = 10_000 if wire == "websocket" else 1500
    async with asyncio.timeout(60), served(Testy) as server, connect(await dial(wire, server.url())) as client:
        answers = [client.agent.request("_testy/ping", {"n": number}) for number in range(count)]
        for at in range(0, count, 500):
            found = await asyncio.gather(*answers[at : at + 500])
            assert [answer["pong"]["n"] for answer in found] == list(range(at, at + 500))


async def trickle(socket, data):
    """Send something, and again, until nobody takes it any more."""
    with contextlib.suppress(OSError):
        while True:
            await socket.send(data)
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("first", [b"GET /acp HTTP/1.1\r\nHost:", POST_OF % 9999])
async def test_a_request_that_comes_byte_by_byte_has_to_be_there_in_time(first, monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.http1.HEAD_TIMEOUT", 0.1)
    monkeypatch.setattr("dragoman.transports.remote.server.serving.BODY_TIMEOUT", 0.1)
    async with asyncio.timeout(10), served(Testy) as server, Socket(server.port) as socket:
        await socket.send(first)
        await trickle(socket, b" ")


async def test_a_body_that_never_comes_ends_its_stream_and_a_socket_without_streams_ends(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.serving.BODY_TIMEOUT", 0.1)
    monkeypatch.setattr("dragoman.transports.remote.server.http2.IDLE", 0.05)
    async with asyncio.timeout(10), served(Testy) as server, Socket(server.port) as socket:
        await begin(socket)
        await socket.send(asking(1, ends=False, head=POST))
        await trickle(socket, b"")


async def test_an_upgrade_that_nobody_follows_up_is_ended(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.asgi.INITIALIZE_TIMEOUT", 0.1)
    async with asyncio.timeout(10), served(Testy) as server, Socket(server.port) as socket:
        await socket.ask(UPGRADE)
        await trickle(socket, b"")


async def test_an_endpoint_has_so_many_connections_and_no_more():
    async with served(Testy, connections=2) as server, by_hand(server) as hand:
        assert [(await hand.ask("POST", JSON, INITIALIZE))[0] for _ in range(3)] == [200, 200, 503]


@pytest.mark.parametrize("steps", range(6))
async def test_a_server_that_stops_to_listen_hangs_up_on_nobody(steps):
    """A connection is served by it, or is left to whoever else has the socket; at whatever moment it comes."""
    other = socket.create_server(("127.0.0.1", 0))
    other.setblocking(False)
    async with asyncio.timeout(PATIENCE), listening(endpoint(Testy), listener=other.dup()) as server:
        with other, socket.create_connection(other.getsockname()) as client:
            client.setblocking(False)
            client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            for _ in range(steps):
                await asyncio.sleep(0)
            await server.stop_accepting()
            try:
                other.accept()[0].close()
            except BlockingIOError:
                assert (await asyncio.get_running_loop().sock_recv(client, 100)).startswith(b"HTTP/1.1 ")
