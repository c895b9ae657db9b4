"""The attacks on the server (`attacks`), turned round: each greets as it should and attacks when it is prompted.

`ATTACKS` has each under the name of the attack that it mirrors, with the outcome of the prompt: the reason the turn
ends with, `error`, or `waits` where a server that takes its time looks the same.
"""

import asyncio
import json
import random
import struct

import h2.config
import h2.connection
import h2.events
import hpack

from .attacks import ATTACKS as MIRRORED
from .attacks import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    message,
)
from .foreign import response, result_of
from .hostile_servers import Server, good, read_frame, switch_protocols, text

ATTACKS = {}
OK = hpack.Encoder().encode([(":status", "200"), ("content-type", "application/json")])
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def register(name, make, outcome):
    assert name in MIRRORED
    ATTACKS[name] = make, outcome


async def send(writer, data):
    """Write, and let the others in this process have their turn."""
    writer.write(data)
    await writer.drain()
    await asyncio.sleep(0)


async def flood(writer, data):
    """The same bytes without end, as fast as they are read."""
    while True:
        await send(writer, data)


async def trickle(writer, data, chance):
    while True:
        await send(writer, data)
        await asyncio.sleep(chance.random() / 10)


# HTTP/1.1


def http1(outcome):
    def wrapped(attack):
        async def odd(server, request, writer):
            await attack(request, writer, random.Random(attack.__name__))

        register(attack.__name__, lambda: Server(odd), outcome)
        return attack

    return wrapped


@http1("error")
async def heads_letter_by_letter(request, writer, chance):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await trickle(writer, b"X: y\r\n", chance)


@http1("error")
async def bodies_letter_by_letter(request, writer, chance):
    writer.write(HEAD + b'content-length: 999999\r\n\r\n{"')
    await trickle(writer, b"x", chance)


@http1("error")
async def bodies_left_half_way(request, writer, chance):
    writer.write(HEAD + b'content-length: 15000000\r\n\r\n{"')
    for _ in range(14_900_000 // 65536):
        await send(writer, b" " * 65536)
    await asyncio.Event().wait()


@http1("error")
async def heads_without_end(request, writer, chance):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await send(writer, b"X-%d: y\r\n" % chance.randrange(10**9) * 1000)


@http1("error")
async def many_large_heads(request, writer, chance):
    head = b"".join(b"X-%d: y\r\n" % number for number in range(4000))
    await flood(writer, b"HTTP/1.1 103 Early Hints\r\n" + head + b"\r\n")


@http1("error")
async def chunks_of_a_byte(request, writer, chance):
    writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    await flood(writer, b"1\r\n \r\n" * 4000)


@http1("end_turn")
async def requests_ahead_of_an_answer(request, writer, chance):
    """The answer, and behind it one after the other that nobody has asked for."""
    writer.write(response(good(request)))
    await flood(writer, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" * 4000)


@http1("waits")
async def sockets_that_say_nothing(request, writer, chance):
    await asyncio.Event().wait()


# HTTP/2


class Server2:
    """Answers over HTTP/2 in the answers to POSTs, and a prompt with `attack(writer, stream, chance)`."""

    def __init__(self, attack, before=b""):
        self._attack = attack
        self._before = before  # written in front of the answer that opens a session

    async def __call__(self, reader, writer):
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http.initiate_connection()
        bodies = {}
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                    http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    asked = json.loads(bodies.pop(event.stream_id, b"null")) or {}
                    if asked.get("method") == "session/prompt":
                        writer.write(http.data_to_send())
                        await self._attack(writer, event.stream_id, random.Random(self._attack.__name__))
                        return
                    self._answer(http, event.stream_id, asked, writer)
            writer.write(http.data_to_send())
            await writer.drain()

    def _answer(self, http, stream, asked, writer):
        if asked.get("method") == "session/new":
            writer.write(http.data_to_send() + self._before)
        body = json.dumps(
            {"jsonrpc": "2.0", "id": asked.get("id"), "result": result_of(asked.get("method"))}
        ).encode()
        http.send_headers(stream, [(":status", "200"), ("content-type", "application/json")])
        http.send_data(stream, body, end_stream=True)


def http2(outcome, *, before=b""):
    def wrapped(attack):
        register(attack.__name__, lambda: Server2(attack, before), outcome)
        return attack

    return wrapped


@http2("error")
async def requests_taken_back(writer, stream, chance):
    await flood(writer, frame(RESET, b"\0\0\0\x08", stream) * 1000)


@http2("error")
async def requests_that_make_us_take_back(writer, stream, chance):
    await flood(writer, frame(WINDOW, b"\x7f\xff\xff\xff", stream))


@http2("error")
async def heads_continued_without_end(writer, stream, chance):
    writer.write(frame(HEADERS, OK, stream, END_STREAM))
    await flood(writer, frame(CONTINUATION, b"", stream) * 1000)


@http2("error")
async def heads_that_unfold(writer, stream, chance):
    block = hpack.Encoder().encode([(":status", "200"), ("x", "y" * 4000)]) + b"\xbe" * 15_000
    await flood(writer, frame(HEADERS, block[:16000], stream, END_HEADERS))


@http2("error")
async def pings(writer, stream, chance):
    await flood(writer, frame(PING, b"12345678") * 4000)


@http2("error")
async def pings_whose_answers_nobody_reads(writer, stream, chance):
    """As `pings`: nothing is read any more once the attack has begun."""
    await flood(writer, frame(PING, b"12345678") * 4000)


@http2("error")
async def settings_again_and_again(writer, stream, chance):
    await flood(writer, frame(SETTINGS, struct.pack("!HI", 4, 70_000)) * 4000)


@http2("error")
async def windows_by_a_byte(writer, stream, chance):
    await flood(writer, frame(WINDOW, b"\0\0\0\x01") * 4000)


@http2("error")
async def priorities(writer, stream, chance):
    await flood(writer, frame(PRIORITY, b"\0\0\0\0\x10", 1) * 4000)


@http2("error")
async def data_of_nothing(writer, stream, chance):
    writer.write(frame(HEADERS, OK, stream, END_HEADERS))
    await flood(writer, frame(DATA, b"", stream) * 4000)


@http2("error")
async def data_of_a_byte(writer, stream, chance):
    writer.write(frame(HEADERS, OK, stream, END_HEADERS))
    await flood(writer, frame(DATA, b" ", stream) * 4000)


@http2("error")
async def frames_larger_than_allowed(writer, stream, chance):
    writer.write(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
    await flood(writer, b" " * 65536)


@http2("waits", before=frame(SETTINGS, struct.pack("!HI", 4, 0)))
async def streams_without_a_window(writer, stream, chance):
    raise AssertionError("the prompt should not have arrived")


@http2("error")
async def noise(writer, stream, chance):
    while True:
        kind, flags, about = chance.randrange(12), chance.randrange(256), chance.randrange(4)
        await send(writer, frame(kind, chance.randbytes(chance.randrange(40)), about, flags))


# WebSocket


def websocket(outcome):
    def wrapped(attack):
        async def serve(reader, writer):
            await switch_protocols(reader, writer)
            while True:
                opcode, data = await read_frame(reader)
                asked = json.loads(data) if opcode == 1 else {}
                if asked.get("method") == "session/prompt":
                    await attack(writer, random.Random(attack.__name__))
                elif "id" in asked:
                    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result_of(asked["method"])}
                    writer.write(text(answer))

        register(attack.__name__, lambda: serve, outcome)
        return attack

    return wrapped


def bare(opcode, data=b"", **options):
    """A frame without a mask, as servers send them."""
    return message(opcode, data, mask=None, **options)


@websocket("error")
async def websocket_pings_nobody_reads(writer, chance):
    await flood(writer, bare(9, b"x" * 100) * 1000)


@websocket("error")
async def websocket_pings(writer, chance):
    await flood(writer, bare(9) * 4000)


@websocket("error")
async def websocket_fragments_of_nothing(writer, chance):
    writer.write(bare(1, fin=False))
    await flood(writer, bare(0, fin=False) * 4000)


@websocket("error")
async def websocket_messages_that_never_end(writer, chance):
    writer.write(bare(1, size=15_000_000))
    for _ in range(14_900_000 // 65536):
        await send(writer, b" " * 65536)
    await asyncio.Event().wait()


@websocket("error")
async def websocket_messages_of_nothing(writer, chance):
    await flood(writer, bare(1) * 4000)


@websocket("error")
async def websocket_frames_without_measure(writer, chance):
    writer.write(bare(1, size=2**62))
    await flood(writer, b" " * 65536)


@websocket("error")
async def websocket_noise(writer, chance):
    while True:
        await send(writer, bare(chance.randrange(16), chance.randbytes(20), fin=chance.random() < 0.5))
