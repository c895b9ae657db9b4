"""A client's socket of HTTP/2: closed when the server wants no more of it, given up when it reads nothing."""

import asyncio
import json
import socket
import struct

import pytest
from skipped_time import skipped_time

from dragoman import connect
from dragoman.errors import Error
from dragoman.transports.remote import http2
from dragoman.transports.remote.client.http import dial_http

from .attacking_servers import OK, Server2, send
from .attacks import DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame
from .foreign import listening, response
from .hostile_forms import GOAWAY, Socket2
from .hostile_servers import Server, chunk, chunked, events, good

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 1000  # seconds of a clock that skips idle time, after which a test has failed
AWAY = frame(GOAWAY, struct.pack("!II", 2**31 - 1, 0))  # it goes on to answer what it was asked
TURNS = 5
ANSWER = {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}


class CountedSockets:
    """A server over HTTP/2, and how many sockets it has."""

    def __init__(self, server):
        self._server = server
        self.open = self.all = 0

    async def __call__(self, reader, writer):
        self.open += 1
        self.all += 1
        try:
            await Socket2(self._server, writer).run(reader)
        finally:
            self.open -= 1


@pytest.mark.parametrize("moment", ["behind an answer", "in the middle of an answer"])
async def test_the_client_closes_a_socket_that_the_server_has_said_goaway_on(moment):
    """A server that is told to stop waits for its clients to hang up: it says so on one socket after the other."""

    async def odd(server, request, writer):
        if moment == "behind an answer":
            writer.write(response(good(request)))
            writer.socket.send(AWAY)
        else:
            writer.write(chunked())
            writer.socket.send(AWAY)
            await asyncio.sleep(1)
            writer.write(chunk(events(good(request))) + chunk(b""))

    server = CountedSockets(Server(odd))
    with skipped_time():
        async with (
            asyncio.timeout(LIMIT),
            listening(server) as url,
            connect(await dial_http(url, version="2")) as client,
        ):
            session = await client.new_session("/")
            for _ in range(TURNS):
                assert (await session.prompt("go")).stop_reason == "end_turn"
            await asyncio.sleep(60)  # of that clock: a socket that was closed is gone
            assert (server.open, server.all) == (0, TURNS)


async def test_the_client_gives_up_a_socket_when_too_much_waits_for_a_server_that_does_not_read(monkeypatch):
    """Data earns the pings with it, so that only the answers that nobody reads count against the server."""
    monkeypatch.setattr(http2, "MAX_UNREAD", 64 * 1024)

    async def attack(writer, stream, chance):
        writer.transport.pause_reading()
        pinged = (frame(DATA, b" " * 16, stream) + frame(PING, b"12345678") * 4) * 64
        writer.write(frame(HEADERS, OK, stream, END_HEADERS))
        for _ in range(128):
            await send(writer, pinged)
        writer.write(frame(DATA, json.dumps(ANSWER).encode(), stream, END_STREAM))
        await asyncio.Event().wait()

    async with asyncio.timeout(60), listening(Server2(attack)) as url:
        wire = await dial_http(url, version="2")
        (dialled,) = wire.link._sockets
        taken = dialled.transport.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # else the system has room for megabytes
        async with connect(wire) as client:
            session = await client.new_session("/")
            with pytest.raises(Error, match="no answer came: it hung up"):
                await client.agent.request("session/prompt", {"sessionId": session.id, "prompt": []})
