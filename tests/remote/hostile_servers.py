"""Servers that do what no agent's server should, or what few do: each a few lines on plain sockets.

`POSTS`, `STREAMS` and `SOCKETS` have them by name, with the outcome that a prompt has with each: the reason a turn
ends with, or `error`, and whether "hello" is heard before.  They greet and open a session as they should; what is
odd is what they do about a prompt.  `hostile_forms` has those of `POSTS` in every form of HTTP.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import socket
import struct
import zlib

from .foreign import GREETING, SESSION, answer, read_request, response, result_of, told

MIB = 1024 * 1024
ASKED = {
    "jsonrpc": "2.0",
    "id": "ask",
    "method": "session/request_permission",
    "params": {
        "sessionId": SESSION,
        "toolCall": {"toolCallId": "t"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
    },
}
UNASKED = {"jsonrpc": "2.0", "id": 10**6, "result": {}}
EVENTS = "text/event-stream"
POSTS, STREAMS, SOCKETS = {}, {}, {}


def events(*messages):
    return b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def large(message):
    """An answer of more bytes than a frame may have."""
    return b'{"jsonrpc":"2.0","id":%d,"result":"%b"}' % (message["id"], b"x" * 20 * MIB)


def chunked(kind=EVENTS, **headers):
    return response(content_type=kind, transfer_encoding="chunked", **headers)


class Server:
    """One server, with what it remembers of all its sockets; `odd(self, request, writer)` answers prompts."""

    def __init__(self, odd):
        self._odd = odd
        self.prompts = self.posts = 0
        self.sockets = self.most_sockets = 0
        self.got = asyncio.Queue()  # what was posted that is no request, and cancels
        self.streams = {}
        self.large = b""  # what answers a message that is no request

    async def __call__(self, reader, writer):
        self.sockets += 1
        self.most_sockets = max(self.sockets, self.most_sockets)
        try:
            while request := await read_request(reader):
                await self.handle(request, writer)
        finally:
            self.sockets -= 1

    async def handle(self, request, writer):
        if request.method != "POST":
            writer.write(response(status="405 Method Not Allowed"))
            return
        method = request.message.get("method")
        if method == "session/prompt":
            self.prompts += 1
            await self._odd(self, request, writer)
        elif "id" not in request.message or method is None:
            self.got.put_nowait(request.message)
            await self.take(request, writer)
        else:
            await self.answer(request, writer)

    async def take(self, request, writer):
        writer.write(response(self.large) if self.large else response(status="202 Accepted"))

    async def answer(self, request, writer):
        writer.write(response(answer(request, result_of(request.message["method"]))))


def posts(outcome, *, says=False):
    def register(odd):
        POSTS[odd.__name__] = odd, outcome, says
        return odd

    return register


def raw(name, outcome, data, *, says=False):
    """A server that answers a prompt with bytes, and hangs up if they have no end."""

    async def odd(server, request, writer):
        writer.write(data(request) if callable(data) else data)
        await writer.drain()
        if name.startswith("cut"):
            writer.close()

    odd.__name__ = name
    posts(outcome, says=says)(odd)


def good(request):
    return answer(request, result_of("session/prompt"))


def broken(request):
    """An answer whose id can be read, and the rest of it cannot."""
    return b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":end_turn}}' % request.message["id"]


def nested(request):
    """An answer as deep as it is long."""
    return b'{"jsonrpc":"2.0","id":%d,"result":%b%b}' % (request.message["id"], b"[" * 100_000, b"]" * 100_000)


def named_chunk(message):
    """One chunk, whose size has an extension."""
    return chunk(json.dumps(message).encode()).replace(b"\r\n", b';name="value"\r\n', 1)


COOKIES = b"".join(b"set-cookie: n%d=%b; Path=/\r\n" % (number, b"x" * 100) for number in range(300))


def packed(request, pack):
    return pack(json.dumps(good(request)).encode())


def in_two_parts(request):
    data = packed(request, bytes)
    return gzip.compress(data[:20]) + gzip.compress(data[20:])


raw("no content", "error", response(status="204 No Content", content_type=None))
raw("nothing", "error", response())
raw("accepted and never answered", "error", response(status="202 Accepted"))
raw("a login page", "error", response(b"<html>Log in</html>", content_type="text/html"))
raw("an error page", "error", response(b"<html>Oops</html>", "500 Internal Server Error", content_type="text/html"))
raw("a redirect", "error", response(status="302 Found", location="http://127.0.0.1:1/"))
raw("not allowed", "error", response(status="403 Forbidden"))
raw("gzip", "end_turn", lambda r: response(packed(r, gzip.compress), content_encoding="gzip"))
raw("deflate", "end_turn", lambda r: response(packed(r, zlib.compress), content_encoding="Deflate"))
raw("gzip in two parts", "end_turn", lambda r: response(in_two_parts(r), content_encoding="gzip"))
raw("gzip in many parts", "error", response(gzip.compress(b" ") * 3000, content_encoding="gzip"))
raw("a mark of UTF-8", "end_turn", lambda r: response(packed(r, b"\xef\xbb\xbf".__add__)))
raw("brotli", "error", lambda r: response(packed(r, bytes), content_encoding="br"))
raw("broken gzip", "error", lambda r: response(b"\x1f\x8b" + b"x" * 100, content_encoding="gzip"))
raw("a bomb", "error", response(gzip.compress(bytes(200 * MIB), 9), content_encoding="gzip"))
raw("no JSON", "error", response(b'{"jsonrpc":"2.0","id":'))
raw("an answer that is broken", "error", lambda r: response(broken(r)))
raw("an answer to another", "error", lambda r: response({**good(r), "id": "other"}))
raw("a list", "end_turn", lambda r: response([told("hello"), good(r)]), says=True)
raw(
    "lines",
    "end_turn",
    lambda r: response("\n".join(map(json.dumps, (told("hello"), good(r)))).encode()),
    says=True,
)
raw(
    "events at once",
    "end_turn",
    lambda r: response(events(told("hello"), good(r)), content_type="text/event-stream"),
    says=True,
)
raw(
    "events without an answer",
    "error",
    response(events(told("hello")), content_type="text/event-stream"),
    says=True,
)
raw("plain text", "end_turn", lambda r: response(good(r), content_type="text/plain"))
raw("no type", "end_turn", lambda r: response(good(r), content_type=None))
raw(
    "too large",
    "error",
    lambda r: response(b'{"jsonrpc":"2.0","id":%d,"result":"' % r.message["id"] + b"x" * 20 * MIB),
)
raw("cut before the head", "error", b"")
raw("cut in the head", "error", b"HTTP/1.1 200 OK\r\ncontent-")
raw("cut in the body", "error", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
raw("cut in a chunk", "error", chunked() + b"ffff\r\nx")
raw("a chunk of no size", "error", chunked() + b"zz\r\nx\r\n")
raw("no HTTP", "error", b"220 mail.example ESMTP\r\n\r\n")
raw("two lengths", "error", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}")
raw("a head without end", "error", b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000)
raw("many hints", "end_turn", lambda r: b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000 + response(good(r)))
raw("hints without end", "error", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5_000)
raw("switching protocols", "error", b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n")
raw("a status that is none", "error", response(status="999 Whatever"))
raw("an answer of HTTP/1.0", "end_turn", lambda r: response(good(r)).replace(b"HTTP/1.1", b"HTTP/1.0"))
raw(
    "trailers and extensions of chunks",
    "end_turn",
    lambda r: chunked("application/json") + named_chunk(good(r)) + b"0;end\r\nset-cookie: a=b\r\nx: y\r\n\r\n",
)
raw("trailers without end", "error", lambda r: chunked() + chunk(b":\n") + b"0\r\n" + b"x: y\r\n" * 50_000)
raw("gzip that ends too soon", "error", lambda r: response(packed(r, gzip.compress)[:-20], content_encoding="gzip"))
raw("UTF-16", "error", lambda r: response(json.dumps(good(r)).encode("utf-16")))
raw("a header of a mebibyte", "error", lambda r: response(good(r), x_large="x" * MIB))
raw("cookies", "end_turn", lambda r: b"HTTP/1.1 200 OK\r\n" + COOKIES + response(good(r)).partition(b"\r\n")[2])
raw("a deep answer", "error", lambda r: response(nested(r)))
raw("busy until the year 9999", "error", response(status="503 Busy", retry_after="Fri, 31 Dec 9999 23:59:59 GMT"))
raw("busy for ever", "error", response(status="429 Busy", retry_after="9" * 400))
raw(
    "more than was asked for",
    "end_turn",
    lambda r: response(good(r)) + response({"jsonrpc": "2.0", "id": 99, "result": {}}),
)


@posts("end_turn")
async def busy_at_first(server, request, writer):
    if server.prompts == 1:
        writer.write(response(status="429 Too Many Requests", retry_after=1))
    elif server.prompts == 2:
        writer.write(response(status="503 Service Unavailable"))
    else:
        writer.write(response(good(request)))


@posts("end_turn", says=True)
async def a_question_inside_an_answer(server, request, writer):
    """The answer stays open until the question in it is answered by another POST."""
    writer.write(chunked() + chunk(events(told("hello"), ASKED)))
    message = await server.got.get()
    assert message["result"]["outcome"]["optionId"] == "y"
    writer.write(chunk(events(good(request))) + chunk(b""))


@posts("cancelled")
async def a_turn_that_ends_when_it_is_cancelled(server, request, writer):
    """The POST is held without a word; the cancel has to come beside it."""
    while (await server.got.get()).get("method") != "session/cancel":
        pass
    writer.write(response({**good(request), "result": {"stopReason": "cancelled"}}))


@posts("end_turn", says=True)
async def packed_events_as_they_come(server, request, writer):
    packer = zlib.compressobj(wbits=31)
    writer.write(chunked(content_encoding="gzip"))
    for message in (told("hello"), good(request)):
        writer.write(chunk(packer.compress(events(message)) + packer.flush(zlib.Z_SYNC_FLUSH)))
        await writer.drain()
    writer.write(chunk(packer.flush()) + chunk(b""))


# Servers with a stream for what they have to say


class StreamServer(Server):
    """The draft's form: a connection id, answers on streams."""

    async def handle(self, request, writer):
        if request.method == "GET":
            await self.open_stream(request, writer)
        elif request.method == "DELETE":
            writer.write(response(status="202 Accepted"))
        else:
            await super().handle(request, writer)

    async def open_stream(self, request, writer):
        writer.write(chunked())
        self.streams[request.headers.get("acp-session-id")] = writer

    def say(self, *messages):
        self.streams[None].write(chunk(events(*messages)))

    async def answer(self, request, writer):
        if request.message["method"] == "initialize":
            writer.write(response(answer(request, GREETING), acp_connection_id="c1"))
            return
        writer.write(response(status="202 Accepted"))
        self.say(answer(request, result_of(request.message["method"])))


def streams(outcome, server=StreamServer, *, says=False):
    def register(odd):
        STREAMS[odd.__name__] = (lambda: server(odd)), outcome, says
        return odd

    return register


@streams("end_turn", says=True)
async def an_answer_on_the_stream(server, request, writer):
    writer.write(response(status="202 Accepted"))
    server.say(told("hello"), good(request))


@streams("end_turn", says=True)
async def several_in_one_event(server, request, writer):
    writer.write(response(status="202 Accepted"))
    lines = b"".join(b"data: %b\r\n" % json.dumps(message).encode() for message in (told("hello"), good(request)))
    server.streams[None].write(chunk(lines + b"\r\n"))


@streams("end_turn")
async def an_answer_in_the_answer(server, request, writer):
    writer.write(response(good(request)))


@streams("end_turn")
async def a_packed_answer_in_the_answer(server, request, writer):
    writer.write(response(packed(request, gzip.compress), content_encoding="gzip"))


@streams("end_turn", says=True)
async def events_in_the_answer(server, request, writer):
    writer.write(chunked() + chunk(events(told("hello"), ASKED)))
    await server.got.get()
    writer.write(chunk(events(good(request))) + chunk(b""))


@streams("error")
async def a_login_page_in_the_middle(server, request, writer):
    writer.write(response(b"<html>Log in</html>", content_type="text/html"))


@streams("error")
async def a_stream_that_ends(server, request, writer):
    writer.write(response(status="202 Accepted"))
    for stream in server.streams.values():
        stream.close()


@streams("error")
async def an_answer_too_large_for_an_event(server, request, writer):
    writer.write(response(status="202 Accepted"))
    start = b'data: {"jsonrpc":"2.0","id":%d,"result":"' % request.message["id"]
    await flood(server.streams[None], start, b"x" * 65536, 20 * MIB)
    server.streams[None].write(chunk(b'"}\n\n'))


@streams("error")
async def an_answer_too_large_for_an_event_with_its_id_last(server, request, writer):
    writer.write(response(status="202 Accepted"))
    await flood(server.streams[None], b'data: {"jsonrpc":"2.0","result":"', b"x" * 65536, 20 * MIB)
    server.streams[None].write(chunk(b'","id":%d}\n\n' % request.message["id"]))


@streams("error")
async def a_large_answer_to_this_in_the_answer_to_another(server, request, writer):
    """The prompt is answered, too large, in the body that answers a permission's outcome."""
    writer.write(response(status="202 Accepted"))
    server.large = b'{"jsonrpc":"2.0","result":"%b","id":%d}' % (b"x" * 20 * MIB, request.message["id"])
    server.say(ASKED)


@streams("end_turn", says=True)
async def an_event_of_many_lines(server, request, writer):
    writer.write(response(status="202 Accepted"))
    await flood(server.streams[None], b"", b"data:%b\n" % (b"x" * 58) * 1024, 24 * MIB)
    server.streams[None].write(chunk(b"\n"))
    server.say(told("hello"), good(request))


async def flood(writer, start, data, size):
    """So many bytes on a stream, as fast as they are read."""
    writer.write(chunk(start) if start else b"")
    for _ in range(size // len(data)):
        writer.write(chunk(data))
        await writer.drain()


@streams("end_turn", says=True)
async def a_thousand_sessions_nobody_asked_for(server, request, writer):
    writer.write(response(status="202 Accepted"))
    for number in range(1000):
        update = told("x")
        update["params"]["sessionId"] = f"unknown-{number}"
        server.say(update)
    await server.streams[None].drain()
    await asyncio.sleep(0.2)
    server.say(told("hello"), good(request))
    assert server.most_sockets < 100


class BusyAnswers(StreamServer):
    """Takes no answer to a question the first two times."""

    def when_answered(self, go_on):
        self._go_on = go_on

    async def take(self, request, writer):
        self.posts += 1
        if self.posts < 3:
            writer.write(response(status="429 Too Many Requests" if self.posts == 1 else "503 Service Unavailable"))
        else:
            await super().take(request, writer)
            self._go_on()


@streams("end_turn", BusyAnswers)
async def answers_refused_at_first(server, request, writer):
    writer.write(response(status="202 Accepted"))
    server.say(ASKED)
    server.when_answered(lambda: server.say(good(request)))


class NoSessionStream(StreamServer):
    """Has no stream for sessions at the moment, and so no way to answer in them."""

    async def open_stream(self, request, writer):
        if "acp-session-id" in request.headers:
            writer.write(response(status="503 Service Unavailable"))
        else:
            await super().open_stream(request, writer)


@streams("error", NoSessionStream)
async def no_stream_for_a_session(server, request, writer):
    writer.write(response(status="202 Accepted"))


class PackedStream(StreamServer):
    """Packs its stream, and has no other."""

    async def open_stream(self, request, writer):
        if "acp-session-id" in request.headers:
            writer.write(response(status="404 Not Found"))
            return
        self._packer = zlib.compressobj(wbits=31)
        writer.write(chunked(content_encoding="gzip"))
        self.streams[None] = writer

    def say(self, *messages):
        packed = self._packer.compress(events(*messages)) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self.streams[None].write(chunk(packed))


@streams("end_turn", PackedStream, says=True)
async def a_packed_stream(server, request, writer):
    writer.write(response(status="202 Accepted"))
    server.say(told("hello"), good(request))


class OddLines(StreamServer):
    """Begins with a mark of UTF-8, ends lines with CR, writes a comment between."""

    async def open_stream(self, request, writer):
        await super().open_stream(request, writer)
        writer.write(chunk(b"\xef\xbb\xbf:hello\r\r"))

    def say(self, *messages):
        self.streams[None].write(chunk(events(*messages).replace(b"\n", b"\r") + b":\r"))


@streams("end_turn", OddLines, says=True)
async def lines_that_end_in_cr(server, request, writer):
    writer.write(response(status="202 Accepted"))
    server.say(told("hello"), good(request))


# WebSockets


def text(data, opcode=1, fin=True, mask=False):
    """A frame as a server writes it."""
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    first = bytes([(0x80 if fin else 0) | opcode])
    if len(data) < 126:
        head = first + bytes([len(data) | (0x80 if mask else 0)])
    elif len(data) < 65536:
        head = first + bytes([126]) + struct.pack(">H", len(data))
    else:
        head = first + bytes([127]) + struct.pack(">Q", len(data))
    return head + (bytes(4) if mask else b"") + data


async def read_frame(reader):
    """The opcode and data of a client's frame."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack(">H", await reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack(">Q", await reader.readexactly(8))
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    return first & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


async def switch_protocols(reader, writer, headers=lambda asked: {}):
    """Agree to a WebSocket; `headers` makes more of them of those that were sent.  Gives the request."""
    request = await read_request(reader)
    key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    told = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-accept": accept}
    lines = [f"{name}: {value}\r\n" for name, value in (told | headers(request.headers)).items()]
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n".encode())
    return request


def sockets(outcome, *, says=False):
    def register(odd):
        async def serve(reader, writer):
            await switch_protocols(reader, writer)
            while True:
                opcode, data = await read_frame(reader)
                if opcode != 1:
                    continue
                message = json.loads(data)
                if message.get("method") == "session/prompt":
                    await odd(message, reader, writer)
                elif "method" in message and "id" in message:
                    writer.write(
                        text({"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"])})
                    )

        SOCKETS[odd.__name__] = (lambda: serve), outcome, says
        return odd

    return register


def ended(message):
    return {"jsonrpc": "2.0", "id": message["id"], "result": result_of("session/prompt")}


SAYING = ("several on lines", "no messages")  # they say hello before they end


def says(name, outcome, *frames):
    """A server that answers a prompt with frames, each bytes or made of the prompt."""

    async def odd(message, reader, writer):
        for frame in frames:
            writer.write(frame(message) if callable(frame) else frame)
        await writer.drain()
        if name.startswith("hangs up"):
            writer.transport.abort()

    odd.__name__ = name
    sockets(outcome, says=name in SAYING)(odd)


def halves(message):
    data = json.dumps(ended(message)).encode()
    return text(data[:10], fin=False) + text(b"", opcode=9) + text(data[10:], opcode=0)


def letters(data):
    """A frame for each byte."""
    return b"".join(
        text(data[at : at + 1], opcode=0 if at else 1, fin=at + 1 == len(data)) for at in range(len(data))
    )


says("hangs up", "error")
says("hangs up in a frame", "error", b"\x81\x7e\x10\x00{")
says("closes with an error", "error", text(struct.pack(">H", 1011) + b"oops", opcode=8))
says("closes without a word", "error", text(b"", opcode=8))
says("closes with a code that is none", "error", text(struct.pack(">H", 999), opcode=8))
for code in (1005, 1006, 1015, 5000):
    says(f"closes with the code {code}", "error", text(struct.pack(">H", code), opcode=8))
says("closes with half a code", "error", text(b"\x03", opcode=8))
says("closes with what is no text", "error", text(struct.pack(">H", 1000) + b"\xff", opcode=8))
says("in letters", "end_turn", lambda m: letters(json.dumps(ended(m)).encode()))
says("letters without end", "error", text(b"{", fin=False), text(b" ", opcode=0, fin=False) * 5_000)
says("a rest without a beginning", "error", text(b"{}", opcode=0))
says("two beginnings", "error", text(b"{", fin=False), text(b"{", fin=False))
says("packed and not asked to", "error", lambda m: b"\xc1" + text(zlib.compress(b"{}"))[1:])
says("binary", "end_turn", text(b"\x00\x01", opcode=2), lambda m: text(ended(m)))
says("an answer that is binary", "error", lambda m: text(json.dumps(ended(m)).encode(), opcode=2))
says("several on lines", "end_turn", lambda m: text("\n".join(map(json.dumps, (told("hello"), ended(m)))).encode()))
says("no UTF-8", "error", text(b'{"\xff'))
says("an opcode that is none", "error", text(b"", opcode=5))
says("a masked frame", "error", lambda m: text(ended(m), mask=True)[:6])
says("an unknown extension", "error", b"\xf1\x00")
says("a long ping", "error", text(b"x" * 200, opcode=9))
says("in two halves", "end_turn", halves)
says("in many lines", "end_turn", lambda m: text(json.dumps(ended(m), indent=4).encode()))
says(
    "answers nobody asked for",
    "end_turn",
    *[text({"jsonrpc": "2.0", "id": 10**6, "result": {}})] * 500,
    lambda m: text(ended(m)),
)
says("no messages", "end_turn", *[text(b"hello")] * 500, lambda m: text(told("hello")) + text(ended(m)))
says(
    "an answer that is too large",
    "error",
    lambda m: text(b'{"jsonrpc":"2.0","id":%d,"result":"' % m["id"] + b"x" * 20 * MIB),
)
says("only half an answer", "error", lambda m: text(b'{"jsonrpc":"2.0","id":%d,"result"' % m["id"]), b"\x88\x00")


@sockets("error")
async def pings_and_reads_nothing(message, reader, writer):
    ping = text(b"x" * 125, opcode=9) * 512
    for _ in range(150 * MIB // len(ping)):
        writer.write(ping)
        await writer.drain()
    raise ConnectionResetError("the client took all of it")


@sockets("error")
async def pings_between_messages_and_reads_nothing(message, reader, writer):
    """A message earns the pings with it, so that only the pongs that nobody reads count against the server."""
    writer.transport.pause_reading()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    both = (text(UNASKED) + text(b"x" * 125, opcode=9) * 4) * 64
    for _ in range(16 * MIB // len(both)):
        writer.write(both)
        await writer.drain()
    writer.write(text(ended(message)))
