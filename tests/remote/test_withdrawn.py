"""A request that is cancelled before the server has it is answered at once, and the server never hears of it."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from skipped_time import skipped_time

from dragoman import Agent, extension
from dragoman.transports.remote import dial_http, dial_websocket

from .cutting import relay
from .foreign import listening, response
from .hostile_forms import EventsServer, LogServer, Reluctant, over_http2
from .hostile_servers import Server, StreamServer
from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")

WITHOUT_LOG = [Server, EventsServer, StreamServer]
FORMS = [*WITHOUT_LOG, LogServer]
LIMIT = 1000  # seconds of a clock that skips idle time, after which a test has failed
SOON = 0.5  # seconds of that clock: nobody has waited for a server
GREET = {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
WORK = {"id": 7, "method": "_work", "params": {"x": 1}}
TAKE_BACK = {"method": "$/cancel_request", "params": {"requestId": 7}}
PING = {"id": 8, "method": "_ping", "params": {}}


class Speaker:
    """A wire that is spoken to by hand; its answers come to a queue."""

    def __init__(self, wire):
        self.wire, self.answers = wire, asyncio.Queue()
        wire.listen(self._hear, lambda: None)

    def _hear(self, frames):
        for frame in frames:
            self.answers.put_nowait(json.loads(frame))

    def say(self, *messages):
        self.wire.send([json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages])

    async def answer(self):
        """The id of the next answer, and its error's code if it is one."""
        message = await self.answers.get()
        return message["id"], message.get("error", {}).get("code")


@asynccontextmanager
async def spoken_to(url, dial=dial_http, **options):
    wire = await dial(url, **options)
    try:
        yield Speaker(wire)
    finally:
        await wire.close()


def served_over(version, server):
    return listening(over_http2(lambda: server)() if version == "2" else server)


class Noting(Server):
    """Notes the methods it hears after the greeting; mixed into each form."""

    def __init__(self, odd=None):
        super().__init__(odd)
        self.heard = []

    async def handle(self, request, writer):
        if request.method == "POST" and request.body and (method := request.message["method"]) != "initialize":
            self.heard.append(method)
        await super().handle(request, writer)


def busy(form, refuses, until=20):
    """A server of a form that refuses `_work` once, after `refuses(server)`, and says when to send it again."""

    class Busy(Noting, form):
        refused = False

        async def handle(self, request, writer):
            is_work = request.method == "POST" and request.body and request.message.get("method") == "_work"
            if is_work and not self.refused:
                self.refused = True
                self.heard.append("_work")
                await refuses(self)
                writer.write(response(status="429 Too Many Requests", retry_after=until))
            else:
                await super().handle(request, writer)

    return Busy()


@pytest.mark.parametrize("until", [20, 60])  # the second is as long as a client waits for a message
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_request_that_the_server_had_no_room_for_is_answered_when_it_is_cancelled(form, version, until):
    refused = asyncio.Event()

    async def refuses(server):
        refused.set()

    with skipped_time() as clock:
        server = busy(form, refuses, until)
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, spoken_to(url) as speaker:
            speaker.say(GREET)
            assert await speaker.answer() == (1, None)
            speaker.say(WORK)
            await refused.wait()
            await asyncio.sleep(1)
            began = clock.now
            speaker.say(TAKE_BACK)
            assert await speaker.answer() == (7, -32800)
            assert clock.now - began < SOON
            speaker.say(PING)
            assert await speaker.answer() == (8, None)
            await asyncio.sleep(120)
            assert speaker.answers.empty()
    assert server.heard == ["_work", "_ping"]


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_request_that_is_refused_after_it_was_cancelled_is_not_sent_again(form, version):
    """The cancel goes to the server, which may have the request; and then says that it has no room for it."""

    async def refuses(server):
        await asyncio.sleep(5)

    with skipped_time() as clock:
        server = busy(form, refuses)
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, spoken_to(url) as speaker:
            speaker.say(GREET)
            assert await speaker.answer() == (1, None)
            began = clock.now
            speaker.say(WORK)
            await asyncio.sleep(1)
            speaker.say(TAKE_BACK)
            assert await speaker.answer() == (7, -32800)
            assert clock.now - began < 5 + SOON
            await asyncio.sleep(60)
            assert speaker.answers.empty()
    assert server.heard.count("_work") == 1
    assert "$/cancel_request" in server.heard


@pytest.mark.parametrize("form", FORMS)
async def test_a_request_that_waits_for_the_connection_is_answered_when_it_is_cancelled(form):
    go_on = asyncio.Event()

    class Slow(Noting, form):
        async def answer(self, request, writer):
            if request.message["method"] == "initialize":
                await go_on.wait()
            await super().answer(request, writer)

    with skipped_time() as clock:
        server = Slow()
        async with asyncio.timeout(LIMIT), listening(server) as url, spoken_to(url) as speaker:
            began = clock.now
            speaker.say(GREET, WORK, TAKE_BACK, PING)
            assert await speaker.answer() == (7, -32800)
            assert clock.now - began < SOON
            go_on.set()
            assert [await speaker.answer(), await speaker.answer()] == [(1, None), (8, None)]
    assert server.heard == ["_ping"]


async def test_a_request_that_waits_for_its_sessions_stream_is_answered_when_it_is_cancelled():
    """Nor does another session wait for that stream."""

    class Headless(Noting, StreamServer):
        async def open_stream(self, request, writer):
            if request.headers.get("acp-session-id") == "slow":
                await asyncio.Event().wait()
            await super().open_stream(request, writer)

    with skipped_time() as clock:
        server = Headless()
        async with asyncio.timeout(LIMIT), listening(server) as url, spoken_to(url) as speaker:
            speaker.say(GREET)
            assert await speaker.answer() == (1, None)
            began = clock.now
            speaker.say({**WORK, "params": {"sessionId": "slow"}}, {**PING, "params": {"sessionId": "quick"}})
            assert await speaker.answer() == (8, None)
            assert clock.now - began < 5
            began = clock.now
            speaker.say(TAKE_BACK)
            assert await speaker.answer() == (7, -32800)
            assert clock.now - began < SOON
    assert "_work" not in server.heard


@pytest.mark.parametrize("form", WITHOUT_LOG)
async def test_a_cancel_does_not_overtake_the_request_that_it_names(form):
    begun, more = asyncio.Event(), asyncio.Event()

    async def open_window():
        begun.set()
        await more.wait()

    server = type("NotingForm", (Noting, form), {})()

    async def serve(reader, writer):
        await Reluctant(server, writer, open_window).run(reader)

    with skipped_time():
        async with asyncio.timeout(LIMIT), listening(serve) as url, spoken_to(url, version="2") as speaker:
            speaker.say(GREET)
            assert await speaker.answer() == (1, None)
            speaker.say({**WORK, "params": {"x": "x" * 300_000}})
            await begun.wait()
            speaker.say(TAKE_BACK)
            await asyncio.sleep(10)
            more.set()
            assert await speaker.answer() == (7, None)
            await asyncio.sleep(1)
    assert server.heard == ["_work", "$/cancel_request"]


class Working(Agent):
    """Notes what it is asked to do."""

    heard: list[str]

    @extension("_work")
    async def work(self, params):
        self.heard.append("_work")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.heard.append("cancelled")
            raise

    @extension("_ping")
    async def ping(self, params):
        self.heard.append("_ping")
        return {}

    async def answer(self, turn):
        self.heard.append(turn.text)


@asynccontextmanager
async def away(heard, caplog, first=(), is_lost=False):
    """A client over WebSocket whose agent notes what it hears, that said `first` and then lost its way; yields the
    client, its session and what leads it back.  Where `is_lost`, a socket took what it said and nobody got it.
    """
    caplog.set_level("INFO", "dragoman")
    async with (
        asyncio.timeout(30),
        served(type("Noted", (Working,), {"heard": heard})) as server,
        relay(server.url(websocket=True)) as (url, way),
        spoken_to(url, dial_websocket) as speaker,
    ):
        speaker.say(GREET)
        assert await speaker.answer() == (1, None)
        speaker.say({"id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
        session = (await speaker.answers.get())["result"]["sessionId"]
        if is_lost:
            way.lost = asyncio.Event()
            speaker.say(*first)
            await way.lost.wait()
            way.lost = None
        else:
            speaker.say(*first, PING)
            assert await speaker.answer() == (8, None)
        way.lead_to(1)
        way.cut()
        while "dropped" not in caplog.text:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
        yield speaker, session, lambda: way.lead_to(server.port)


@pytest.mark.parametrize(
    ("asked", "cancel", "code"),
    [
        (WORK, TAKE_BACK, -32800),
        ({"id": 7, "method": "session/prompt"}, TAKE_BACK, None),
        ({"id": 7, "method": "session/prompt"}, {"method": "session/cancel"}, None),
    ],
)
async def test_a_request_made_while_a_websocket_is_away_is_answered_when_it_is_cancelled(
    asked, cancel, code, caplog
):
    heard = []
    async with away(heard, caplog) as (speaker, session, lead_back):
        about = {"sessionId": session, "prompt": [{"type": "text", "text": "never"}], "requestId": 7}
        speaker.say({**asked, "params": about}, {**cancel, "params": about}, PING)
        message = await speaker.answers.get()
        assert (message["id"], message.get("error", {}).get("code")) == (7, code)
        assert message.get("result") == (None if code else {"stopReason": "cancelled"})
        lead_back()
        assert await speaker.answer() == (8, None)
    assert heard == ["_ping", "_ping"]


async def test_a_request_made_before_a_websocket_dropped_is_cancelled_by_the_server(caplog):
    heard = []
    async with away(heard, caplog, [WORK]) as (speaker, _, lead_back):
        speaker.say(TAKE_BACK)
        lead_back()
        assert await speaker.answer() == (7, -32800)
    assert heard == ["_work", "_ping", "cancelled"]


async def test_a_request_that_a_socket_took_is_never_withdrawn_for_the_server_may_have_it(caplog):
    heard = []
    async with away(heard, caplog, [WORK], is_lost=True) as (speaker, _, lead_back):
        speaker.say(TAKE_BACK)
        lead_back()
        assert await speaker.answer() == (7, -32800)
    assert heard == ["_work", "cancelled"]
