"""A client waits for a server that stops as long as docs/guide/remote.md says, by a clock that skips idle time."""

import asyncio
import re
from pathlib import Path

import pytest
from skipped_time import skipped_time

from dragoman import connect
from dragoman.errors import Error

from .foreign import listening, response
from .hostile_forms import EventsServer, LogServer, Reluctant, over_http2
from .hostile_servers import SOCKETS, Server, StreamServer, chunk, good, sockets

pytestmark = pytest.mark.usefixtures("nothing_left")

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "remote.md"
ROWS = {what: int(seconds) for what, seconds in re.findall(r"^\| (.+?) +\| (\d+) \|$", PAGE.read_text(), re.M)}
LIMIT = 1000  # seconds of a clock that skips idle time, after which a test has failed
A_MOMENT = 1.5  # seconds that go by before and after a wait
PROMPTS = {"a_long_message_that_is_not_read": "x" * 300_000}
CASES = {}


def waits(row, outcome, *, scheme="http", before=0.0, less=0.0):
    """What makes a server, how the row begins that says how long the client waits for it, and what comes of it.

    `before` that the client has waited for something else; it may wait `less` where it looks only now and then.
    """

    def register(make):
        CASES[make.__name__] = make, scheme, row, outcome, before, less
        return make

    return register


async def nothing(reader, writer):
    await asyncio.Event().wait()


async def accepted(server, request, writer):
    writer.write(response(status="202 Accepted"))


@waits("the answer to `initialize`", "error", before=2)
def nothing_at_all():
    return nothing


@waits("a socket with its TLS", "error", scheme="ws")
def no_answer_to_a_handshake():
    return nothing


@waits("a socket with its TLS", "error", scheme="https")
def no_tls():
    return nothing


@waits("a server without TLS to show", "end_turn")
def no_answer_to_http2():
    server = Server(lambda server, request, writer: answered(request, writer))

    async def serve(reader, writer):
        server.sockets += 1
        await (nothing if server.sockets == 1 else server)(reader, writer)

    return serve


async def answered(request, writer):
    writer.write(response(good(request)))


@waits("the event that says where to post", "end_turn")
def a_stream_that_does_not_say_where_to_post():
    class Silent(EventsServer):
        async def open_stream(self, request, writer):
            await StreamServer.open_stream(self, request, writer)

    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
        server.say(good(request))

    return Silent(odd)


@waits("the head of an event stream", "error")
def a_stream_without_a_head():
    class Headless(StreamServer):
        async def open_stream(self, request, writer):
            if "acp-session-id" in request.headers:
                await asyncio.Event().wait()
            await super().open_stream(request, writer)

    return Headless(accepted)


@waits("any sign of life on an event stream", "error")
def a_silent_stream():
    return StreamServer(accepted)


@waits("any sign of life on an event stream", "end_turn")
def a_silent_stream_of_a_server_with_a_log():
    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
        del server.streams[None]  # it looks open; what the server says is heard on the next
        server.say(good(request))

    return LogServer(odd)


@waits("any sign of life on a WebSocket", "error", scheme="ws", less=20)
def a_silent_websocket():
    @sockets("error")
    async def says_nothing(message, reader, writer):
        await asyncio.Event().wait()

    return SOCKETS.pop("says_nothing")[0]()


@waits("the rest of a message", "error", scheme="ws")
def half_a_frame():
    @sockets("error")
    async def begins(message, reader, writer):
        writer.write(b"\x81\x7e\x10\x00{")
        await asyncio.Event().wait()

    return SOCKETS.pop("begins")[0]()


@waits("the rest of a message", "error")
def half_a_body():
    async def odd(server, request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")

    return Server(odd)


@waits("the rest of a message", "error")
def half_a_head():
    async def odd(server, request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-")

    return Server(odd)


@waits("the rest of a message", "error")
def half_an_event():
    class Alive(StreamServer):
        """Goes on with comments on the session's stream."""

        async def open_stream(self, request, writer):
            await super().open_stream(request, writer)
            if "acp-session-id" in request.headers:
                while True:
                    writer.write(chunk(b":\n\n"))
                    await asyncio.sleep(15)

    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
        server.streams[None].write(chunk(b'data: {"jsonrpc"'))

    return Alive(odd)


@waits("a server to read a message", "error", before=300_000 / 4096)
def a_long_message_that_is_not_read():
    async def serve(reader, writer):
        await Reluctant(Server(accepted), writer, asyncio.Event().wait).run(reader)

    return serve


@waits("a server with a log to say", "end_turn")
def a_message_that_is_not_said_to_be_there():
    class Alive(LogServer):
        async def open_stream(self, request, writer):
            await super().open_stream(request, writer)
            while True:
                writer.write(chunk(b":\n\n"))
                await asyncio.sleep(15)

    async def odd(server, request, writer):
        await asyncio.Event().wait()

    return Alive(odd)


@waits("a server with a log to say", "end_turn")
def a_message_that_is_not_said_to_be_there_over_http2():
    return over_http2(a_message_that_is_not_said_to_be_there)()


@waits("a server that refuses a message", "error", less=10)
def always_busy():
    async def odd(server, request, writer):
        writer.write(response(status="503 Service Unavailable"))

    return Server(odd)


class Busy(LogServer):
    """Does not take the first prompt."""

    def __init__(self, status):
        super().__init__(lambda server, request, writer: answered(request, writer))
        self.status = status

    async def handle(self, request, writer):
        if request.body and request.message["method"] == "session/prompt" and b"go" in request.body:
            writer.write(response(status=self.status))
        else:
            await super().handle(request, writer)


@waits("a server that refuses a message", "error")
def always_busy_with_a_log():
    return Busy("503 Service Unavailable")


async def test_a_message_that_a_server_with_a_log_never_has_room_for_fails_alone():
    with skipped_time():
        async with listening(Busy("429 Too Many Requests")) as url, connect(url) as client:
            session = await client.new_session("/")
            with pytest.raises(Error, match="429"):
                await session.prompt("go")
            assert (await session.prompt("another")).stop_reason == "end_turn"


@pytest.mark.parametrize("name", CASES)
async def test_a_server_that_stops_is_waited_for_as_long_as_the_page_says(name):
    make, scheme, row, expected, before, less = CASES[name]
    (seconds,) = [told for what, told in ROWS.items() if what.startswith(row)]
    with skipped_time() as clock:
        began = clock.now
        async with listening(make(), scheme) as url:
            try:
                async with connect(url) as client, asyncio.timeout(LIMIT):
                    outcome = (await (await client.new_session("/")).prompt(PROMPTS.get(name, "go"))).stop_reason
                    waited = clock.now - began
            except (Error, TimeoutError) as exc:
                outcome = "error" if isinstance(exc, Error) else f"nothing in {LIMIT} s"
                waited = clock.now - began
    assert outcome == expected
    assert seconds - less <= waited - before <= seconds + A_MOMENT


def test_every_row_of_the_page_has_such_a_server():
    waited_for = {row for _, _, row, *_ in CASES.values()}
    assert [what for what in ROWS if not what.startswith(tuple(waited_for))] == []
