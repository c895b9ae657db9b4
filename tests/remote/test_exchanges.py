"""A message's POST settles that message, and no other."""

import asyncio
import gzip
import json
import socket
import struct
import time
from email.utils import formatdate

import pytest
from skipped_time import skipped_time

from dragoman import connect
from dragoman.client.inbox import Inbox
from dragoman.errors import ConnectionClosed, Error
from dragoman.schema import AgentMessageChunk
from dragoman.testing import Testy
from dragoman.transports.remote.client.http import dial_http

from .foreign import GREETING, answer, answering, listening, read_request, response, told
from .hostile_forms import EventsServer, LogServer, over_http2
from .hostile_servers import ASKED, Server, StreamServer, chunk, chunked, events, good
from .measured_client import Agreeing
from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 20  # seconds


SLOW = 20  # pieces of a long prompt that a slow server reads, a twentieth of a second after each other


async def test_a_cancel_does_not_overtake_a_long_prompt():
    """They go over different sockets, and the server ends the turn only if it has heard of it before."""
    heard, begun, ends = [], asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        if not (head := await reader.read(1000)):
            return
        prefix = asyncio.StreamReader(limit=2**24)
        prefix.feed_data(head)
        if b"x" * 100 in head:
            begun.set()
            for _ in range(SLOW):
                prefix.feed_data(await reader.read(65536))
                await asyncio.sleep(0.05)

        async def pass_on():
            while data := await reader.read(65536):
                prefix.feed_data(data)
            prefix.feed_eof()

        passing = asyncio.create_task(pass_on())
        try:
            await answering(handle)(prefix, writer)
        finally:
            passing.cancel()
            await asyncio.wait([passing])

    async def handle(request, writer):
        method = request.message["method"]
        heard.append(method)
        if method == "session/cancel":
            writer.write(response(status="202 Accepted", connection="close"))
            ends.set()
            return
        if method == "session/prompt":
            await ends.wait()
        results = {"initialize": GREETING, "session/new": {"sessionId": "s"}}
        result = results.get(method, {"stopReason": "cancelled"})
        writer.write(response(answer(request, result), connection="close"))  # each message has a socket of its own

    async with asyncio.timeout(LIMIT), listening(serve) as url, connect(url) as client:
        session = await client.new_session("/")
        turn = asyncio.ensure_future(finished(session.prompt("x" * 12_000_000)))
        await begun.wait()
        session.cancel()
        assert await turn == "cancelled"
    assert heard[-2:] == ["session/prompt", "session/cancel"]


async def finished(prompt):
    return (await prompt).stop_reason


async def test_a_session_whose_stream_is_refused_leaves_the_others_alone():
    streams, opened, prompted = {}, [], asyncio.Queue()

    async def handle(request, writer):
        session = request.headers.get("acp-session-id")
        if request.method == "GET":
            if session == "s2":
                writer.write(response(status="503 Service Unavailable"))
                return
            writer.write(chunked())
            streams[session] = writer
            return
        message = request.message if request.body else {}
        if message.get("method") == "initialize":
            writer.write(response(answer(request, GREETING), acp_connection_id="c1"))
            return
        writer.write(response(status="202 Accepted"))
        if message.get("method") == "session/new":
            opened.append(f"s{len(opened) + 1}")
            streams[None].write(chunk(events(answer(request, {"sessionId": opened[-1]}))))
        elif message.get("method") == "session/prompt":
            prompted.put_nowait(request)

    async with asyncio.timeout(LIMIT), listening(answering(handle)) as url, connect(url) as client:
        first, second = await client.new_session("/"), await client.new_session("/")
        turn = asyncio.ensure_future(finished(first.prompt("one")))
        request = await prompted.get()
        with pytest.raises(Error, match="event stream"):
            await second.prompt("two")
        streams["s1"].write(chunk(events(answer(request, {"stopReason": "end_turn"}))))
        assert await turn == "end_turn"


@pytest.mark.parametrize("odd", ["204", "empty", "html", "gzip", "events", "202"])
async def test_initialize_has_an_outcome_whatever_its_post_is_answered(odd):
    async def handle(request, writer):
        data = json.dumps(answer(request, GREETING)).encode()
        writer.write(
            {
                "204": response(status="204 No Content", content_type=None),
                "empty": response(),
                "html": response(b"<html>", content_type="text/html"),
                "202": response(status="202 Accepted"),
                "gzip": response(gzip.compress(data), content_encoding="gzip"),
                "events": chunked() + chunk(b"data: " + data + b"\n\n"),  # and it stays open
            }[odd]
        )

    async def greeted(url):
        try:
            async with connect(url):
                return True
        except Error:
            return False

    async with asyncio.timeout(LIMIT), listening(answering(handle)) as url:
        assert await greeted(url) is (odd in ("gzip", "events"))


async def test_a_server_that_answers_nothing_costs_a_bounded_number_of_sockets(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.client.post.MAX_POSTS", 4)
    sockets = 0

    async def handle(request, writer):
        nonlocal sockets
        method = request.message.get("method")
        if method in ("initialize", "session/new"):
            writer.write(response(answer(request, {"initialize": GREETING}.get(method, {"sessionId": "s"}))))
            return
        sockets += 1
        await asyncio.Event().wait()

    async with asyncio.timeout(LIMIT), listening(answering(handle)) as url, connect(url) as client:
        session = await client.new_session("/")
        turns = [asyncio.ensure_future(finished(session.prompt("go"))) for _ in range(5)]
        done, _ = await asyncio.wait(turns, return_when=asyncio.FIRST_COMPLETED)
        assert [turn.exception().code for turn in done] == [-32001]
        for _ in range(10):
            client.agent.notify("_note", {})
        outcomes = await asyncio.gather(*turns, return_exceptions=True)
        assert all(isinstance(outcome, Error) for outcome in outcomes)
    assert sockets == 8


async def test_a_session_whose_stream_ends_fails_its_requests_and_no_others():
    streams, prompted = {}, {}

    async def handle(request, writer):
        session = request.headers.get("acp-session-id")
        if request.method == "GET":
            writer.write(chunked())
            streams[session] = writer
            return
        message = request.message if request.body else {}
        if message.get("method") == "initialize":
            writer.write(response(answer(request, GREETING), acp_connection_id="c1"))
            return
        writer.write(response(status="202 Accepted"))
        if message.get("method") == "session/new":
            streams[None].write(chunk(events(answer(request, {"sessionId": f"s{len(opened)}"}))))
            opened.append(request)
        elif message.get("method") == "session/prompt":
            prompted[message["params"]["sessionId"]].set_result(request)

    opened = []
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LIMIT), listening(answering(handle)) as url, connect(url) as client:
        turns = {}
        for id in ("s0", "s1"):
            prompted[id] = loop.create_future()
            turns[id] = asyncio.ensure_future(finished((await client.new_session("/")).prompt("go")))
        requests = {id: await prompted[id] for id in turns}
        streams["s1"].write(chunk(b""))  # which is its end
        with pytest.raises(Error, match="stream ended before the answer came"):
            await turns["s1"]
        streams["s0"].write(chunk(events(answer(requests["s0"], {"stopReason": "end_turn"}))))
        assert await turns["s0"] == "end_turn"


@pytest.mark.parametrize("told_as", ["seconds", "date"])
@pytest.mark.parametrize("form", [Server, EventsServer, StreamServer, LogServer])
async def test_a_busy_server_gets_a_message_again_when_it_said_and_not_before(form, told_as):
    with skipped_time() as clock:
        tries = []

        async def odd(server, request, writer):
            later = "20" if told_as == "seconds" else formatdate(time.time() + 20, usegmt=True)
            writer.write(response(status="503 Service Unavailable", retry_after=later))

        class Timed(form):
            async def handle(self, request, writer):
                if request.body and request.message.get("method") == "session/prompt":
                    tries.append(clock.now)
                    if len(tries) == 2:
                        writer.write(response(good(request)))
                        return
                await super().handle(request, writer)

        async with listening(Timed(odd)) as url, connect(url) as client:
            assert await finished((await client.new_session("/")).prompt("go")) == "end_turn"
        assert 15 < tries[1] - tries[0] < 30


@pytest.mark.parametrize("ending", ["closed", "reset"])
@pytest.mark.parametrize("form", [Server, StreamServer])
async def test_a_server_that_ends_each_socket_behind_its_answer_loses_no_message(form, ending):
    """It does not say so in the answer: the next message must not be put on that socket."""

    async def odd(server, request, writer):
        if form is Server:
            writer.write(response(good(request)))
        else:
            writer.write(response(status="202 Accepted"))
            server.say(good(request))

    class Hasty(form):
        async def __call__(self, reader, writer):
            if request := await read_request(reader):
                await self.handle(request, writer)
                await writer.drain()
                if request.method == "GET":
                    await reader.read()
                elif ending == "reset":
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with asyncio.timeout(LIMIT), listening(Hasty(odd)) as url, connect(url) as client:
        session = await client.new_session("/")
        for _ in range(5):
            assert await finished(session.prompt("go")) == "end_turn"


@pytest.mark.parametrize("loss", ["broken off", "429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("way", ["answer", "cancel"])
@pytest.mark.parametrize("form", [Server, EventsServer, StreamServer])
async def test_what_ends_a_wait_of_the_agent_is_sent_again_when_its_post_breaks_off_or_is_refused(form, way, loss):
    lost, ending = [], []

    class Losing(form):
        """Does not take the first two messages that are no requests."""

        async def take(self, request, writer):
            if len(lost) < 2:
                lost.append(self.got.get_nowait())
                if loss == "broken off":
                    writer.transport.abort()
                else:
                    writer.write(response(status=loss))
            else:
                await super().take(request, writer)

    async def odd(server, request, writer):
        if form is Server:
            writer.write(chunked() + chunk(events(told("hello"), *([ASKED] if way == "answer" else []))))
        else:
            writer.write(response(status="202 Accepted"))
            server.say(told("hello"), *([ASKED] if way == "answer" else []))
        ending.append(asyncio.create_task(end(server, request, writer)))

    async def end(server, request, writer):
        got = await server.got.get()
        assert got == lost[0] == lost[1]
        ended = {**good(request), "result": {"stopReason": "cancelled" if way == "cancel" else "end_turn"}}
        if form is Server:
            writer.write(chunk(events(ended)) + chunk(b""))
        else:
            server.say(ended)

    async with asyncio.timeout(LIMIT), listening(Losing(odd)) as url, connect(url, Agreeing()) as client:
        session = await client.new_session("/")
        turn = session.prompt("go")
        await anext(turn)
        if way == "cancel":
            session.cancel()
        assert (await turn).stop_reason == ("cancelled" if way == "cancel" else "end_turn")
        await asyncio.gather(*ending)


async def test_sessions_that_only_the_server_knows_cost_few_sockets():
    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
        for number in range(150):
            update = told("x")
            update["params"]["sessionId"] = f"unknown-{number}"
            server.say(update)
        server.say(good(request))

    server = StreamServer(odd)
    with skipped_time():
        async with listening(server) as url, connect(url) as client:
            assert await finished((await client.new_session("/")).prompt("go")) == "end_turn"
            await asyncio.sleep(10)  # of that clock: whatever is being opened is open
    assert 60 < server.most_sockets < 80


@pytest.mark.parametrize("form", [Server, StreamServer])
async def test_what_comes_unasked_on_a_socket_that_rests_is_no_answer_to_what_is_asked_next(form):
    """It is sent as the prompt's answer would be: behind the answer that opens a session, or after it was heard."""
    prompted = []

    async def odd(server, request, writer):
        prompted.append(request)
        writer.write(response(good(request)))

    class Forward(form):
        def __init__(self, *, at_once):
            super().__init__(odd)
            self._at_once, self.heard = at_once, asyncio.Event()

        async def answer(self, request, writer):
            await super().answer(request, writer)
            if request.message["method"] == "session/new":
                if not self._at_once:
                    await writer.drain()
                    await self.heard.wait()
                forged = {"jsonrpc": "2.0", "id": request.message["id"] + 1, "result": {"stopReason": "refusal"}}
                writer.write(response(forged))

    for steps in range(12):  # it may arrive before the prompt is sent, or after, or wait in the system meanwhile
        server = Forward(at_once=steps == 0)
        async with asyncio.timeout(LIMIT), listening(server) as url, connect(url) as client:
            session = await client.new_session("/")
            server.heard.set()
            for _ in range(steps):
                await asyncio.sleep(0)
            assert await finished(session.prompt("go")) == "end_turn"
    assert len(prompted) == 12


@pytest.mark.parametrize(
    ("where", "target"),
    [
        (b"/a b", "/a%20b"),
        ("/é?x=ü".encode(), "/%C3%A9?x=%C3%BC"),
        (b"/a%20b?c=d&e", "/a%20b?c=d&e"),
        (b"/a\0b", "/a%00b"),
        (b"/\xff", "/%EF%BF%BD"),
        (b"http://[bad/", "/acp"),
        (b"http://127.0.0.1:bad/x", "/acp"),
        (b"http://elsewhere.invalid/x", "/acp"),
        (b"", "/acp"),
    ],
)
async def test_a_stream_may_say_to_post_anywhere_at_its_own_server(where, target):
    class Saying(EventsServer):
        async def open_stream(self, request, writer):
            await StreamServer.open_stream(self, request, writer)
            writer.write(chunk(b"event: endpoint\ndata: " + where + b"\n\n"))

    seen = []

    async def odd(server, request, writer):
        seen.append(request.target)
        writer.write(response(status="202 Accepted"))
        server.say(good(request))

    async with asyncio.timeout(LIMIT), listening(Saying(odd)) as url, connect(url) as client:
        assert await finished((await client.new_session("/")).prompt("go")) == "end_turn"
    assert seen == [target]


async def test_a_client_that_reads_nothing_for_minutes_can_still_post(monkeypatch):
    """The wire is held, with a server that keeps a log: whether it took a message has to be known all the same."""
    for method in (Inbox.__init__, Inbox.resize):
        monkeypatch.setitem(method.__kwdefaults__, "disk", 100_000)
    with skipped_time():
        async with served(Testy) as server, connect(await dial_http(server.url(), version="1.1")) as client:
            flooded, other = await client.new_session("/"), await client.new_session("/")
            turn = flooded.prompt("\n".join(["echo " + "x" * 1000] * 8000))
            await asyncio.sleep(10)  # of that clock: what fits is here
            asked = [asyncio.ensure_future(finished(other.prompt("echo hello"))) for _ in range(2)]
            await asyncio.sleep(120)
            assert not asked[0].done()
            assert len([u async for u in turn if isinstance(u, AgentMessageChunk)]) == 8000
            assert await asyncio.gather(*asked) == ["end_turn"] * 2


async def test_a_client_that_closes_while_an_answer_arrives_leaves_no_error_behind():
    """The answer is there to be read when whoever waits for it is cancelled."""
    answered = asyncio.Event()

    async def odd(server, request, writer):
        writer.write(response(good(request)))
        answered.set()

    for form in (Server, LogServer):
        answered.clear()
        serve = over_http2(lambda form=form: form(odd))()
        async with asyncio.timeout(LIMIT), listening(serve) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("go")))
            await answered.wait()
            for task in asyncio.all_tasks():
                if task.get_name() == "post":
                    task.cancel()
            client.agent.notify("_note", {})
        await asyncio.wait([turn])
        assert isinstance(turn.exception(), ConnectionClosed | None)


@pytest.mark.parametrize("form", [Server, EventsServer, StreamServer, LogServer])
@pytest.mark.parametrize(("status", "is_told"), [("202 Accepted", False), ("200 OK", True)])
async def test_a_cancel_that_is_accepted_with_words_that_are_no_json_is_not_lost(form, status, is_told, caplog):
    """Many servers say `Accepted` and call it JSON; the same with status 200 may be anybody's."""

    class Wordy(form):
        async def take(self, request, writer):
            writer.write(response(b"Accepted", status=status))

    async with asyncio.timeout(LIMIT), listening(Wordy(None)) as url, connect(url) as client:
        session = await client.new_session("/")
        session.cancel()
        await client.agent.request("_after", {"sessionId": session.id})
    assert ("session/cancel may be lost" in caplog.text) == is_told
