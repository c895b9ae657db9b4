"""The endpoint as a client of the draft meets it: every status, which stream carries what, resuming a stream."""

import asyncio
import json

import pytest

from dragoman import Agent
from dragoman.testing import Testy
from dragoman.transports.remote.server import asgi
from dragoman.transports.remote.server.answers import RequestRefused
from dragoman.transports.remote.server.server import listening

from .by_hand import EVENTS, INITIALIZE, JSON, by_hand, message
from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(params=["1.1", "2"])
def version(request):
    return request.param


async def test_every_status_of_the_draft(version):
    async with served(Testy, limit=100_000) as server, by_hand(server, version) as hand:
        connection = {"acp-connection-id": (await hand.initialize()).get("acp-connection-id")}
        note = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
        table = [
            (415, "POST", {}, INITIALIZE),
            (415, "POST", {"content-type": "text/plain"}, INITIALIZE),
            (200, "POST", {"content-type": "Application/JSON; charset=utf-8"}, INITIALIZE),
            (400, "POST", JSON, b"{"),
            (400, "POST", JSON, b"7"),
            (400, "POST", JSON, b""),
            (400, "POST", JSON, b"[" * 100_000),
            (501, "POST", JSON, [INITIALIZE]),
            (413, "POST", JSON, b" " * 100_001),
            (400, "POST", JSON, note),
            (400, "POST", {**JSON, "acp-connection-id": "x" * 1025}, note),
            (404, "POST", {**JSON, "acp-connection-id": "unheard-of"}, note),
            (400, "POST", {**JSON, **connection}, INITIALIZE),
            (400, "POST", {**JSON, **connection, "acp-session-id": "other"}, note),
            (202, "POST", {**JSON, **connection, "acp-session-id": "s"}, note),
            (202, "POST", {**JSON, **connection}, note),
            (406, "GET", connection, b""),
            (406, "GET", {**connection, "accept": "application/json"}, b""),
            (400, "GET", EVENTS, b""),
            (404, "GET", {**EVENTS, "acp-connection-id": "unheard-of"}, b""),
            (400, "DELETE", {}, b""),
            (404, "DELETE", {"acp-connection-id": "unheard-of"}, b""),
            (405, "PUT", connection, b""),
            (405, "OPTIONS", {}, b""),
            (202, "DELETE", connection, b""),
            (404, "POST", {**JSON, **connection}, note),
        ]
        answers = [await hand.ask(method, headers, body) for _, method, headers, body in table]
        assert [status for status, _ in answers] == [status for status, *_ in table]


async def test_what_is_no_message_is_answered_in_json_rpc_too():
    async with served(Testy) as server, by_hand(server) as hand:
        assert json.loads((await hand.ask("POST", JSON, b"{"))[1])["error"]["code"] == -32700
        assert json.loads((await hand.ask("POST", JSON, [INITIALIZE]))[1])["error"]["code"] == -32600
        early = {"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {}}
        assert json.loads((await hand.ask("POST", JSON, early))[1])["id"] == 7


async def test_the_answer_to_initialize_is_the_answer_to_its_post(version):
    async with served(Testy) as server, by_hand(server, version) as hand:
        reply, body = await hand.reply("POST", JSON, INITIALIZE)
        assert reply.get("content-type") == "application/json"
        assert json.loads(body)["result"]["protocolVersion"] == 1
        assert len(reply.get("acp-connection-id")) == 32


async def test_a_failed_handshake_leaves_no_connection():
    async with served(Testy) as server, by_hand(server) as hand:
        reply, body = await hand.reply("POST", JSON, {**INITIALIZE, "params": {}})
        assert (reply.status, reply.get("acp-connection-id")) == (200, "")
        assert json.loads(body)["error"]["code"] == -32602


async def test_an_agent_that_cannot_start_is_an_internal_error(caplog):
    class Broken(Agent):
        async def __aenter__(self):
            raise RuntimeError("no key")

    async with served(Broken) as server, by_hand(server) as hand:
        status, body = await hand.ask("POST", JSON, INITIALIZE)
        assert (status, json.loads(body)["error"]["code"]) == (500, -32603)
        assert b"no key" not in body  # it is in the log


async def test_each_stream_carries_its_own(version):
    async with served(Testy) as server, by_hand(server, version) as hand:
        await hand.initialize()
        async with hand.events() as connection:
            session = await hand.open_session(connection)
            async with hand.events(session) as stream:
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "echo hello"}]}
                await hand.post({"id": 5, "method": "session/prompt", "params": prompt}, acp_session_id=session)
                while (said := await message(stream)).get("id") != 5:
                    assert said["params"]["sessionId"] == session
                assert said["result"]["stopReason"] == "end_turn"
                await hand.post({"id": 6, "method": "session/list", "params": {}})
                assert (await message(connection))["id"] == 6
                assert (connection.qsize(), stream.qsize()) == (0, 0)


async def test_what_nobody_reads_yet_waits(version):
    async with served(Testy) as server, by_hand(server, version) as hand:
        await hand.initialize()
        await hand.post({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
        async with hand.events() as connection:
            assert (await message(connection))["id"] == 1


async def test_a_stream_has_one_reader():
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize()
        async with hand.events():
            assert (await hand.ask("GET", EVENTS, acp_connection_id=hand.id))[0] == 409


async def test_a_reader_that_says_how_far_it_came_takes_over_and_misses_nothing(version):
    async with served(Testy) as server, by_hand(server, version) as hand:
        await hand.initialize()
        async with hand.events() as connection:
            session = await hand.open_session(connection)
            async with hand.events(session) as stream:
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "flood 40 100"}]}
                await hand.post({"id": 2, "method": "session/prompt", "params": prompt}, acp_session_id=session)
                before = [await asyncio.wait_for(stream.get(), 10) for _ in range(3)]
                async with hand.events(session, last_event_id=before[-1].id.decode()) as again:
                    after = [await asyncio.wait_for(again.get(), 10)]
                    while json.loads(after[-1].data).get("id") != 2:
                        after.append(await asyncio.wait_for(again.get(), 10))
        numbers = [int(event.id) for event in before + after]
        assert numbers == list(range(1, len(numbers) + 1))
        assert sum(b"agent_message_chunk" in event.data for event in before + after) == 40


async def test_a_stream_that_cannot_be_resumed_says_so_and_leaves_its_reader_alone():
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize()
        async with hand.events() as connection:
            for number in ("99", "yesterday", "-1", "9" * 5000):
                status, _ = await hand.ask("GET", EVENTS, acp_connection_id=hand.id, last_event_id=number)
                assert status == 410
            assert await hand.open_session(connection)


async def test_a_connection_has_so_many_streams_and_no_more(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.accepted.MAX_STREAMS", 3)
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize()
        async with hand.events("a"), hand.events("b"):
            headers = {**EVENTS, "acp-session-id": "c"}
            assert (await hand.ask("GET", headers, acp_connection_id=hand.id))[0] == 429


async def test_deleting_a_connection_ends_its_streams(version):
    async with served(Testy) as server, by_hand(server, version) as hand:
        await hand.initialize()
        async with hand.events() as connection:
            assert (await hand.ask("DELETE", acp_connection_id=hand.id))[0] == 202
            assert await asyncio.wait_for(connection.get(), 10) is None


async def test_a_client_that_does_not_come_back_is_given_up():
    ended = asyncio.Event()

    class Leaving(Agent):
        async def __aexit__(self, *_):
            ended.set()

    async with served(Leaving, grace=0.05) as server, by_hand(server) as hand:
        await hand.initialize()
        await asyncio.wait_for(ended.wait(), 10)
        assert (await hand.ask("DELETE", acp_connection_id=hand.id))[0] == 404


async def test_a_connection_belongs_to_whoever_opened_it(version):
    async def admit(request):
        if "authorization" not in request.headers:
            raise RequestRefused(401, "who are you?", {"www-authenticate": "Bearer"})
        return request.headers["authorization"]

    async with served(Testy, admit=admit) as server, by_hand(server, version) as hand:
        assert (await hand.ask("POST", JSON, INITIALIZE))[0] == 401
        await hand.initialize(authorization="Bearer a")
        unknown = await hand.ask("DELETE", acp_connection_id="f" * 32, authorization="Bearer b")
        foreign = await hand.ask("DELETE", acp_connection_id=hand.id, authorization="Bearer b")
        assert foreign == unknown
        assert foreign[0] == 404
        assert (await hand.ask("DELETE", acp_connection_id=hand.id, authorization="Bearer a"))[0] == 202


async def test_pages_and_names_that_were_not_allowed_are_refused():
    async with served(Testy, origins={"https://good.example"}) as server, by_hand(server) as hand:
        for origin in ("https://good.example.evil", "http://good.example", "null", ""):
            assert (await hand.ask("POST", JSON, INITIALIZE, origin=origin))[0] == 403
        assert (await hand.ask("POST", JSON, INITIALIZE, origin="https://good.example"))[0] == 200
        server.endpoint.hosts = {"agent.example"}
        assert (await hand.ask("POST", JSON, INITIALIZE))[0] == 421


async def test_a_loaded_sessions_history_goes_out_before_the_answer():
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize()
        async with hand.events() as connection:
            session = await hand.open_session(connection)
            async with hand.events(session) as stream:
                await _say(hand, session, stream, "echo remember me")
                load = {"sessionId": session, "cwd": "/", "mcpServers": []}
                await hand.post({"id": 9, "method": "session/load", "params": load}, acp_session_id=session)
                assert (await message(connection))["id"] == 9
                assert "remember me" in json.dumps(await message(stream))


async def _say(hand, session, stream, text):
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    await hand.post({"id": 3, "method": "session/prompt", "params": prompt}, acp_session_id=session)
    while (await message(stream)).get("id") != 3:
        pass


async def test_an_idle_stream_is_kept_alive(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.answers.KEEP_ALIVE_EVERY", 0.01)
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize()
        seen, twice = [], asyncio.Event()

        def heard(data):
            seen.append(data)
            if b"".join(seen).count(b":\n\n") > 2:
                twice.set()

        headers = [*EVENTS.items(), ("acp-connection-id", hand.id)]
        exchange = await hand._link.begin("GET", headers, b"", heard, lambda _: None)
        await asyncio.wait_for(twice.wait(), 10)
        exchange.cancel()


async def test_the_servers_end_is_the_agents_end():
    ended = asyncio.Event()

    class Leaving(Agent):
        async def __aexit__(self, *_):
            ended.set()

    async def say(scope, send_events):
        received = iter(send_events)

        async def receive():
            return {"type": next(received)}

        sent = []

        async def send(event):
            sent.append(event["type"])

        await endpoint(scope, receive, send)
        return sent

    endpoint = asgi.endpoint(Leaving)
    async with served(Leaving) as server, by_hand(server) as hand:
        await hand.initialize()
    assert ended.is_set()
    sent = await say({"type": "lifespan"}, ["lifespan.startup", "lifespan.shutdown"])
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_head_is_answered_without_a_body(version, caplog):
    async with served(Testy) as server, by_hand(server, version) as client:
        assert await client.ask("HEAD") == (405, b"")
        await client.initialize()  # on the same socket
    assert not caplog.records


async def test_bodies_have_one_budget_and_whoever_exceeds_it_is_told_to_try_again(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.server.requests.MAX_BODIES", 1000)
    head = b"POST /acp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    async with asyncio.timeout(20), listening(asgi.endpoint(Testy)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b" " * 2000)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in answer.lower()


async def test_a_request_that_lingered_on_the_way_takes_the_place_of_no_newer_reader():
    async with served(Testy) as server, by_hand(server) as hand:
        await hand.initialize(last_event_id="0")
        async with hand.events(last_event_id="0", acp_generation="3") as newest:
            for late in ("1", "2", "3"):
                status, _ = await hand.ask(
                    "GET", EVENTS, acp_connection_id=hand.id, last_event_id="0", acp_generation=late
                )
                assert status == 409
            assert await hand.open_session(newest)
