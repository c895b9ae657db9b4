"""A server may hold the POST of a prompt as long as the turn: what ends a wait of the agent goes past it."""

import asyncio
import json

import pytest
from skipped_time import skipped_time

from dragoman import connect
from dragoman import schema as s
from dragoman.errors import Error
from dragoman.transports.remote import dial_http

from .foreign import SESSION, answer, listening, response
from .hostile_forms import EventsServer, LogServer, Reluctant, over_http2
from .hostile_servers import ASKED, MIB, Server, StreamServer, chunk, chunked, events, good
from .measured_client import Agreeing

pytestmark = pytest.mark.usefixtures("nothing_left")

WITHOUT_LOG = [Server, EventsServer, StreamServer]
FORMS = [*WITHOUT_LOG, LogServer]
LIMIT = 1000  # seconds of a clock that skips idle time, after which a test has failed
SOON = 2.0  # seconds of a clock that skips idle time: nothing has waited for an answer
SOME_TRIES = 20.0  # of that clock: a message that was refused has been sent again


def served_over(version, server):
    return listening(over_http2(lambda: server)() if version == "2" else server)


def asked_in(request):
    return request.message["params"]["prompt"][0]["text"]


def cancelled(request):
    return {**good(request), "result": {"stopReason": "cancelled"}}


async def finished(prompt):
    return (await prompt).stop_reason


def sorting(form, odd):
    """A server of a form that also keeps cancels and outcomes apart; each of them comes once."""
    loop = asyncio.get_running_loop()

    class Sorting(form):
        def __init__(self):
            super().__init__(odd)
            self.cancelled, self.answered = loop.create_future(), loop.create_future()

        async def take(self, request, writer):
            await super().take(request, writer)
            (self.cancelled if "method" in request.message else self.answered).set_result(request.message)

    return Sorting()


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", FORMS)
async def test_outcomes_of_questions_and_cancels_do_not_wait_for_the_head_of_a_held_answer(form, version):
    """One prompt's POST is held without a word, while another asks a question; then the first is cancelled."""
    held, ending = asyncio.Event(), []

    async def odd(server, request, writer):
        if asked_in(request) == "hold":
            held.set()
            await server.cancelled
            writer.write(response(cancelled(request)))
        elif form is Server:
            writer.write(chunked() + chunk(events(ASKED)))
            await server.answered
            writer.write(chunk(events(good(request))) + chunk(b""))
        else:
            writer.write(response(status="202 Accepted"))
            server.say(ASKED)
            ending.append(asyncio.create_task(end(server, request)))

    async def end(server, request):
        await server.answered
        server.say(good(request))

    with skipped_time() as clock:
        async with (
            asyncio.timeout(LIMIT),
            served_over(version, sorting(form, odd)) as url,
            connect(url, Agreeing()) as client,
        ):
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("hold")))
            await held.wait()
            began = clock.now
            asked = {"sessionId": session.id, "prompt": [{"type": "text", "text": "ask"}]}
            assert (await client.agent.request("session/prompt", asked))["stopReason"] == "end_turn"
            session.cancel()
            assert await turn == "cancelled"
            assert clock.now - began < SOON
            await asyncio.gather(*ending)


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_server_with_a_log_that_hears_a_cancel_before_its_prompt_hears_it_again_after(version, is_held):
    """It comes to the prompt late, and says 409 to what has a higher number; it may hold the prompt's POST then."""
    order, refused = [], []

    class Slow(LogServer):
        async def handle(self, request, writer):
            method = request.message.get("method") if request.body else None
            if method == "session/prompt":
                await asyncio.sleep(5)
            number = int(request.headers.get("idempotency-key", '"0"').strip('"'))
            if method in ("session/prompt", "session/cancel"):
                (order if number == self.taken + 1 else refused).append(method)
            await super().handle(request, writer)

    async def odd(server, request, writer):
        if is_held:
            await end(server, request)
        writer.write(response(status="202 Accepted"))
        if not is_held:
            ending.append(asyncio.create_task(end(server, request)))

    async def end(server, request):
        assert (await server.got.get())["method"] == "session/cancel"
        server.say(cancelled(request))

    ending = []
    with skipped_time():
        async with asyncio.timeout(LIMIT), served_over(version, Slow(odd)) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("go")))
            await asyncio.sleep(1)
            session.cancel()
            await asyncio.wait([turn], timeout=SOME_TRIES)
            assert refused
            assert order == ["session/prompt", "session/cancel"]
            assert await turn == "cancelled"
            await asyncio.gather(*ending)


def prompted(client, session, text):
    asked = {"sessionId": session.id, "prompt": [{"type": "text", "text": text}]}
    return asyncio.ensure_future(client.agent.request("session/prompt", asked))


def noting(heard):
    async def odd(server, request, writer):
        heard.append(asked_in(request))
        writer.write(response(status="202 Accepted"))
        server.say(good(request))

    return odd


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_message_that_is_under_way_while_the_one_before_is_refused_is_heard_once(version):
    """Two prompts are under way when the first is refused; the second lingers on its way to the server."""
    heard, said = [], []

    class Refusing(LogServer):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt":
                said.append(text := asked_in(request))
                if text == "1":
                    await asyncio.sleep(5)
                    writer.write(response(status="413 Content Too Large"))
                    return
                if said == ["1", "2"]:
                    await asyncio.sleep(20)
            await super().handle(request, writer)

    with skipped_time():
        server = Refusing(noting(heard))
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, connect(url) as client:
            session = await client.new_session("/")
            refused = prompted(client, session, "1")
            await asyncio.sleep(1)
            lingering = prompted(client, session, "2")
            with pytest.raises(Error, match="413"):
                await refused
            assert (await lingering)["stopReason"] == "end_turn"
            await asyncio.sleep(30)
            assert (await prompted(client, session, "3"))["stopReason"] == "end_turn"
    assert heard == ["2", "3"]


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_message_is_heard_though_the_one_before_was_taken_and_then_refused(version):
    """The answer that it was taken is lost, and somebody on the way lets nothing of it through after that."""
    heard, said = [], []

    class Limited(LogServer):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt" and asked_in(request) == "1":
                said.append("1")
                if len(said) > 1:
                    writer.write(response(status="429 Too Many Requests"))
                    return
                self.taken += 1
                writer.close()
                return
            await super().handle(request, writer)

    with skipped_time():
        server = Limited(noting(heard))
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, connect(url) as client:
            session = await client.new_session("/")
            with pytest.raises(Error, match="429"):
                await prompted(client, session, "1")
            assert (await prompted(client, session, "2"))["stopReason"] == "end_turn"
    assert heard == ["2"]


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_message_waits_for_one_of_its_session_that_is_to_be_sent_again(form, version):
    order, refused = [], asyncio.Event()

    class Busy(form):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt" and not refused.is_set():
                writer.write(response(status="503 Service Unavailable", retry_after=20))
                refused.set()
            else:
                await super().handle(request, writer)

        async def take(self, request, writer):
            await super().take(request, writer)
            order.append(request.message["method"])

    async def odd(server, request, writer):
        order.append("session/prompt")
        writer.write(response(good(request)))

    with skipped_time():
        async with asyncio.timeout(LIMIT), served_over(version, Busy(odd)) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("go")))
            await refused.wait()
            client.agent.notify("_note", {"sessionId": session.id})
            assert await turn == "end_turn"
            await asyncio.sleep(1)
    assert order == ["session/prompt", "_note"]


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_prompt_that_is_cancelled_while_the_server_has_no_room_for_it_is_not_sent_again(form, version):
    """It ends as cancelled at once; the next one is heard, and so is the cancel: another turn may be under way."""
    heard, refused = [], asyncio.Event()

    class Busy(form):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt" and not refused.is_set():
                writer.write(response(status="503 Service Unavailable", retry_after=20))
                refused.set()
            else:
                await super().handle(request, writer)

    async def odd(server, request, writer):
        heard.append(asked_in(request))
        writer.write(response(good(request)))

    with skipped_time() as clock:
        server = Busy(odd)
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("go")))
            await refused.wait()
            await asyncio.sleep(1)
            began = clock.now
            session.cancel()
            assert await turn == "cancelled"
            assert clock.now - began < SOON
            assert await finished(session.prompt("another")) == "end_turn"
            assert (await server.got.get())["method"] == "session/cancel"
    assert heard == ["another"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_prompt_of_version_2_that_is_cancelled_before_it_is_sent_ends_as_cancelled(form):
    """There a prompt's answer does not end its turn, so that it is answered with an error."""
    refused = asyncio.Event()

    class Busy(form):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt":
                writer.write(response(status="503 Service Unavailable", retry_after=20))
                refused.set()
            else:
                await super().handle(request, writer)

    greeting = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}, "capabilities": {}}
    asked = [
        {"id": 1, "method": "initialize", "params": greeting},
        {"id": 2, "method": "session/prompt", "params": {"sessionId": SESSION, "prompt": []}},
    ]
    answers = asyncio.Queue()
    with skipped_time():
        async with asyncio.timeout(LIMIT), listening(Busy(None)) as url:
            wire = await dial_http(url)
            try:
                wire.listen(
                    lambda frames: [answers.put_nowait(json.loads(frame)) for frame in frames], lambda: None
                )
                for message in asked:
                    wire.send([json.dumps({"jsonrpc": "2.0", **message}).encode()])
                assert (await answers.get())["id"] == 1
                await refused.wait()
                await asyncio.sleep(1)
                cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
                wire.send([json.dumps(cancel).encode()])
                answered = await answers.get()
            finally:
                await wire.close()
    assert (answered["id"], answered["error"]["code"]) == (2, -32800)


def reluctant(server, more):
    async def serve(reader, writer):
        await Reluctant(server, writer, more).run(reader)

    return listening(serve)


@pytest.mark.parametrize("form", WITHOUT_LOG)
async def test_a_prompt_that_does_not_arrive_holds_up_its_own_cancel_and_no_other_session(form):
    """The server reads the long prompt of one session only after the other session's cancel."""
    heard, begun, other = [], asyncio.Event(), asyncio.Event()

    async def more():
        begun.set()
        await other.wait()

    class Noting(form):
        def __init__(self, odd):
            super().__init__(odd)
            self.opened = 0

        async def answer(self, request, writer):
            if request.message["method"] == "session/new":
                self.opened += 1
                writer.write(response(answer(request, {"sessionId": f"s{self.opened}"})))
            else:
                await super().answer(request, writer)

        async def take(self, request, writer):
            heard.append((request.message["method"], request.message["params"]["sessionId"]))
            await super().take(request, writer)
            if heard[-1][1] == "s2":
                other.set()

    async def odd(server, request, writer):
        heard.append(("session/prompt", request.message["params"]["sessionId"]))
        writer.write(response(cancelled(request)))

    with skipped_time():
        async with asyncio.timeout(LIMIT), reluctant(Noting(odd), more) as url, connect(url) as client:
            first, second = await client.new_session("/"), await client.new_session("/")
            turn = asyncio.ensure_future(finished(first.prompt("x" * 300_000)))
            await begun.wait()
            first.cancel()
            client.agent.notify("session/cancel", {"sessionId": second.id})
            assert await turn == "cancelled"
            await asyncio.sleep(1)
    assert heard == [("session/cancel", "s2"), ("session/prompt", "s1"), ("session/cancel", "s1")]


async def test_a_long_prompt_to_a_server_with_a_log_may_take_minutes_to_arrive():
    async def odd(server, request, writer):
        writer.write(response(good(request)))

    server = LogServer(odd)
    with skipped_time() as clock:
        began = clock.now
        async with (
            asyncio.timeout(LIMIT),
            reluctant(server, lambda: asyncio.sleep(5)) as url,
            connect(url) as client,
        ):
            session = await client.new_session("/")
            assert await finished(session.prompt("x" * 2_000_000)) == "end_turn"
        assert clock.now - began > 120
    assert server.prompts == 1


async def test_a_prompt_that_is_never_said_to_be_taken_fails_alone_when_a_later_message_was_taken():
    class Mute(LogServer):
        async def handle(self, request, writer):
            if request.body and b'"hold"' in request.body:
                self.taken = max(self.taken, int(request.headers["idempotency-key"].strip('"')))
                await asyncio.Event().wait()
            await super().handle(request, writer)

    async def odd(server, request, writer):
        writer.write(response(good(request)))

    with skipped_time():
        async with asyncio.timeout(LIMIT), listening(Mute(odd)) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("hold")))
            await asyncio.sleep(1)
            session.cancel()
            with pytest.raises(Error, match="no answer in time"):
                await turn
            assert await finished(session.prompt("go")) == "end_turn"


@pytest.mark.parametrize("form", [EventsServer, StreamServer, LogServer])
async def test_answers_that_the_server_does_not_take_hold_it_up_instead_of_filling_our_memory(form):
    """It asks for a file of a mebibyte, again and again, and holds every POST that answers."""
    large, prompted = [], []

    class Holding(form):
        async def take(self, request, writer):
            if "result" in request.message and len(large) < 100:
                large.append(len(request.body))
                self.ask()
                await asyncio.Event().wait()
            await super().take(request, writer)
            self.say(good(prompted[0]))

        def ask(self):
            params = {"sessionId": SESSION, "path": "/large"}
            method = "fs/read_text_file"
            self.say({"jsonrpc": "2.0", "id": f"r{len(large)}", "method": method, "params": params})

    class Reading(Agreeing):
        async def read_text_file(self, params):
            return s.ReadTextFileResponse(content="x" * MIB)

    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
        prompted.append(request)
        server.ask()

    with skipped_time():
        async with asyncio.timeout(LIMIT), served_over("2", Holding(odd)) as url, connect(url, Reading()) as client:
            assert await finished((await client.new_session("/")).prompt("go")) == "end_turn"
    assert 20 < len(large) < 40
