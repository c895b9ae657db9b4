"""A server may hold the POST of a prompt as long as the turn: what ends a wait of the agent goes past it."""

import asyncio

import pytest
from skipped_time import skipped_time

from dragoman import connect
from dragoman import schema as s
from dragoman.errors import Error

from .foreign import SESSION, answer, listening, response
from .hostile_forms import EventsServer, LogServer, Reluctant, over_http2
from .hostile_servers import ASKED, MIB, Server, StreamServer, chunk, chunked, events, good
from .measured_client import Agreeing

pytestmark = pytest.mark.usefixtures("nothing_left")

WITHOUT_LOG = [Server, EventsServer, StreamServer]
FORMS = [*WITHOUT_LOG, LogServer]
LIMIT = 1000  # seconds of a clock that skips idle time, after which a test has failed
SOON = 2.0  # seconds of a clock that skips idle time: nothing has waited for an answer


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


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_server_with_a_log_that_hears_a_cancel_before_its_prompt_hears_it_again_after(version):
    """It comes to the prompt late, and says 409 to what has a higher number."""
    order, refused = [], []

    class Slow(LogServer):
        async def handle(self, request, writer):
            method = request.message.get("method") if request.body else None
            if method == "session/prompt":
                await asyncio.sleep(5)
            before = self.taken
            await super().handle(request, writer)
            if method in ("session/prompt", "session/cancel"):
                (order if self.taken > before else refused).append(method)

    async def odd(server, request, writer):
        writer.write(response(status="202 Accepted"))
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
            assert await turn == "cancelled"
            await asyncio.gather(*ending)
    assert order == ["session/prompt", "session/cancel"]
    assert refused


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_refused_message_leaves_its_number_to_the_next_that_is_under_way(version):
    """Three prompts are under way when the first is refused; the others are heard once, and so is a fourth."""
    heard, said = [], []

    class Refusing(LogServer):
        async def handle(self, request, writer):
            if request.body and request.message.get("method") == "session/prompt":
                said.append(asked_in(request))
                if asked_in(request) == "1":
                    await asyncio.sleep(5)
                    writer.write(response(status="413 Content Too Large"))
                    return
            await super().handle(request, writer)

    async def odd(server, request, writer):
        heard.append(asked_in(request))
        writer.write(response(status="202 Accepted"))
        server.say(good(request))

    def prompt(client, session, text):
        asked = {"sessionId": session.id, "prompt": [{"type": "text", "text": text}]}
        return asyncio.ensure_future(client.agent.request("session/prompt", asked))

    with skipped_time():
        async with asyncio.timeout(LIMIT), served_over(version, Refusing(odd)) as url, connect(url) as client:
            session = await client.new_session("/")
            turns = []
            for text in "123":
                turns.append(prompt(client, session, text))
                await asyncio.sleep(1)
            with pytest.raises(Error, match="413"):
                await turns[0]
            for turn in (*turns[1:], prompt(client, session, "4")):
                assert (await turn)["stopReason"] == "end_turn"
    assert heard == ["2", "3", "4"]
    assert said.count("2") > 1  # it came before its turn, and again


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("form", WITHOUT_LOG)
async def test_a_cancel_waits_for_its_prompt_that_is_to_be_sent_again(form, version):
    order, refused = [], asyncio.Event()

    async def odd(server, request, writer):
        if server.prompts == 1:
            writer.write(response(status="503 Service Unavailable", retry_after=20))
            refused.set()
            return
        order.append("session/prompt")
        server.cancelled.add_done_callback(lambda _: order.append("session/cancel"))
        await server.cancelled
        writer.write(response(cancelled(request)))

    with skipped_time():
        server = sorting(form, odd)
        async with asyncio.timeout(LIMIT), served_over(version, server) as url, connect(url) as client:
            session = await client.new_session("/")
            turn = asyncio.ensure_future(finished(session.prompt("go")))
            await refused.wait()
            await asyncio.sleep(1)
            session.cancel()
            await asyncio.sleep(1)
            assert order == []
            assert not server.cancelled.done()
            assert await turn == "cancelled"
    assert order == ["session/prompt", "session/cancel"]


def reluctant(server, more):
    async def serve(reader, writer):
        await Reluctant(server, writer, more).run(reader)

    return listening(serve)


@pytest.mark.parametrize("form", WITHOUT_LOG)
async def test_a_prompt_that_does_not_arrive_holds_up_its_own_cancel_and_no_other_session(form):
    """The server reads the long prompt of one session only after the other session's cancel."""
    heard, other = [], asyncio.Event()

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
        async with asyncio.timeout(LIMIT), reluctant(Noting(odd), other.wait) as url, connect(url) as client:
            first, second = await client.new_session("/"), await client.new_session("/")
            turn = asyncio.ensure_future(finished(first.prompt("x" * 300_000)))
            await asyncio.sleep(0)
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
