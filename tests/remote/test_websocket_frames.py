"""Both ends of a WebSocket against the table of frames: what is wrong ends it with the right code."""

import asyncio
import contextlib
import struct

import pytest
from websockets.utils import accept_key

from dragoman.testing import Testy
from dragoman.transports.remote.client.websocket import dial_websocket
from dragoman.transports.remote.server.server import listening

from .attacks import UPGRADE, message
from .frames import CASES, CLOSE, CLOSED, GOOD, LIMIT, PONG, PONGS, PROTOCOL, TAKEN, TEXT
from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")

MASK = b"\x37\xfa\x21\x3d"
EVERY = pytest.mark.parametrize(("sent", "outcome"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])


async def read_frame(reader):
    """The opcode, the payload and the mask of a frame."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4) if second & 0x80 else None
    data = await reader.readexactly(size)
    return first & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if mask else data, mask


async def send_frames(writer, frames, mask):
    """Send them, whether the other end still listens or not."""
    with contextlib.suppress(OSError):
        writer.write(
            b"".join(message(opcode, data, **{"mask": mask, **options}) for opcode, data, options in frames)
        )
        await writer.drain()


async def pongs_or_close(reader, count, is_masked):
    """What comes back: so many pongs, or the code of a close."""
    pongs = []
    while len(pongs) < count or not count:
        opcode, data, mask = await read_frame(reader)
        assert (mask is not None) is is_masked
        if opcode == PONG:
            pongs.append(data)
        elif opcode == CLOSE:
            return CLOSED, struct.unpack("!H", data[:2])[0] if data else None
    return PONGS, pongs


# The server


class Taking:
    """An ASGI application that notes the texts it gets."""

    def __init__(self):
        self.texts = asyncio.Queue()

    async def __call__(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            if (text := event.get("text")) is not None:
                self.texts.put_nowait(text.encode())


@EVERY
async def test_what_a_server_makes_of_frames(sent, outcome):
    app = Taking()
    async with asyncio.timeout(10), listening(app, limit=LIMIT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        await send_frames(writer, sent, MASK)
        if outcome[0] is TAKEN:
            assert await app.texts.get() == outcome[1]
        else:
            count = len(outcome[1]) if outcome[0] is PONGS else 0
            assert await pongs_or_close(reader, count, is_masked=False) == outcome
        if outcome[0] is CLOSED:
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("opcode", [TEXT, PONG, CLOSE])
async def test_a_server_takes_nothing_that_is_not_masked(opcode):
    async with asyncio.timeout(10), listening(Taking()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        await send_frames(writer, [(opcode, b"\x03\xe8", {})], None)
        assert await pongs_or_close(reader, 0, is_masked=False) == PROTOCOL
        writer.close()


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (b"", b"", b"101"),
        (b"Connection: Upgrade", b"Connection: keep-alive, upgrade", b"101"),
        (b"Upgrade: websocket", b"Upgrade: WebSocket", b"101"),
        (b"Host: a", b"Host: a\r\nSec-WebSocket-Extensions: permessage-deflate", b"101"),
        (b"Host: a", b"Host: a\r\nSec-WebSocket-Protocol: chat, superchat", b"101"),
        (b"Connection: Upgrade\r\n", b"", b"400"),
        (b"Connection: Upgrade", b"Connection: close", b"400"),
        (b"Version: 13", b"Version: 12", b"426"),
        (b"Version: 13", b"Version: x", b"426"),
        (b"Sec-WebSocket-Version: 13\r\n", b"", b"426"),
        (b"AAAAAAAAAAAAAAAAAAAAAA==", b"AAAA", b"400"),
        (b"AAAAAAAAAAAAAAAAAAAAAA==", b"not base64 at all!!!!!!!", b"400"),
        (b"GET", b"POST", b"415"),
        (b"Host: a\r\n", b"", b"400"),
    ],
)
async def test_handshakes(before, after, status):
    async with asyncio.timeout(10), served(Testy) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(UPGRADE.replace(before, after, 1))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.split(b" ")[1] == status
        assert b"sec-websocket-extensions" not in head
        assert b"sec-websocket-protocol" not in head
        assert (b"sec-websocket-version: 13" in head) is (status == b"426")
        writer.close()


# The client


class Peer:
    """A server by hand, for one client: answers the handshake, sends what it is told, notes what comes back."""

    def __init__(self, sent, mask=None):
        self._sent, self._mask = sent, mask
        self.back = None

    async def __call__(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        lines = ["HTTP/1.1 101 x", "Upgrade: websocket", "Connection: Upgrade"]
        lines.append(f"Sec-WebSocket-Accept: {accept_key(key.split(b': ')[1].decode())}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await send_frames(writer, self._sent, self._mask)
        with contextlib.suppress(asyncio.IncompleteReadError):
            self.back = await pongs_or_close(reader, 0, is_masked=True)
        writer.close()


async def heard_from(sent, mask=None, until=None):
    """What a client hears from such a server, and what comes back, until the wire ends or has heard that."""
    peer, heard, over, done = Peer(sent, mask), [], asyncio.Event(), asyncio.Event()

    def hear(frames):
        heard.extend(frames)
        if until in heard:
            over.set()

    async def serve(reader, writer):
        await peer(reader, writer)
        done.set()

    async with asyncio.timeout(10), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        wire = await dial_websocket(f"ws://127.0.0.1:{port}/", limit=LIMIT)
        wire.listen(hear, over.set)
        await over.wait()
        await wire.close()
        await done.wait()
    return heard, peer.back


ENDING = [case for case in CASES if case[2][0] is CLOSED]
TAKING = [case for case in CASES if case[2][0] is TAKEN]


@pytest.mark.parametrize(("sent", "outcome"), [case[1:] for case in ENDING], ids=[case[0] for case in ENDING])
async def test_what_a_client_ends_a_socket_for(sent, outcome):
    _, back = await heard_from(sent)
    assert back == outcome


@pytest.mark.parametrize(("sent", "outcome"), [case[1:] for case in TAKING], ids=[case[0] for case in TAKING])
async def test_what_a_client_hears(sent, outcome):
    heard, back = await heard_from(sent, until=outcome[1])
    assert heard == [outcome[1]]
    assert back == (CLOSED, 1000)


async def test_a_client_takes_nothing_that_is_masked():
    heard, back = await heard_from([GOOD], MASK)
    assert (heard, back) == ([], PROTOCOL)
