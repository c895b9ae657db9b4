"""What may be written in more than one way is understood in each: ids, header values, media types."""

import asyncio
import json
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import pytest

from dragoman import Agent, connect
from dragoman.errors import Error
from dragoman.schema import NewSessionResponse
from dragoman.testing import Testy
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.server import accepted

from .by_hand import by_hand, message
from .foreign import GREETING, answer, answering, listening, response, result_of, told
from .hostile_forms import LogServer, over_http2
from .hostile_servers import StreamServer, good
from .serving import WIRES, dial, served

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 20  # seconds


async def test_an_id_written_with_escapes_is_the_id_that_its_answer_has():
    """The answer comes on the stream of the session it was asked for, whichever way its id is written."""
    async with asyncio.timeout(LIMIT), served(Testy) as server, by_hand(server) as client:
        await client.initialize()
        async with client.events() as common:
            session = await client.open_session(common)
            async with client.events(session) as of_session:
                body = (
                    b'{"jsonrpc":"2.0","id":"\\u00e9\\/","method":"session/prompt","params":%b}'
                    % json.dumps({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}).encode()
                )
                headers = {"acp-connection-id": client.id, "acp-session-id": session}
                await client.ask("POST", {"content-type": "application/json", **headers}, body)
                while "result" not in (heard := await message(of_session)):
                    assert heard["method"] == "session/update"
                assert heard["id"] == "é/"


@asynccontextmanager
async def a_client_with_room_for_eight(monkeypatch):
    """A client by hand, the server, and what comes on the connection's stream."""
    monkeypatch.setattr(accepted, "MAX_STREAMS", 8)
    async with asyncio.timeout(LIMIT), served(Testy) as server, by_hand(server) as client:
        await client.initialize()
        async with client.events() as common:
            yield client, server, common


def closing(number, session):
    return {"id": number, "method": "session/close", "params": {"sessionId": session}}


async def answer_in(stream):
    while "result" not in (heard := await message(stream)):
        pass
    return heard["id"]


async def test_a_connection_may_open_and_close_any_number_of_sessions(monkeypatch):
    async with a_client_with_room_for_eight(monkeypatch) as (client, server, common):
        for number in range(30):
            session = await client.open_session(common)
            async with client.events(session) as of_session:
                await client.post(closing(number, session), acp_session_id=session)
                assert await answer_in(of_session) == number
                while await of_session.get() is not None:
                    pass
        (wire,) = server.endpoint._wires.values()
        assert len(wire.streams) <= 3


async def test_sessions_that_were_closed_and_never_read_leave_room_for_others(monkeypatch):
    async with a_client_with_room_for_eight(monkeypatch) as (client, _, common):
        for number in range(30):
            session = await client.open_session(common)
            await client.post(closing(number, session), acp_session_id=session)
        session = await client.open_session(common)
        async with client.events(session) as of_session:
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "echo hello"}]}
            await client.post({"id": "p", "method": "session/prompt", "params": prompt}, acp_session_id=session)
            assert await answer_in(of_session) == "p"


ODD_IDS = ["😀", "café", "s\r\nx-evil: 1", "a\0b", " s ", "x" * 100_000, 'odd "id" \\']


@pytest.mark.parametrize("id", ODD_IDS, ids=range(len(ODD_IDS)))
@pytest.mark.parametrize("wire", WIRES)
async def test_a_session_may_have_any_id_on_any_wire(wire, id):
    class Naming(Agent):
        async def new_session(self, params):
            return NewSessionResponse(session_id=(await self.open_session(id, params)).id)

        async def answer(self, turn):
            await turn.say("hello")

    async with asyncio.timeout(LIMIT), served(Naming) as server, connect(await dial(wire, server.url())) as client:
        await has_a_turn(client, id)


@pytest.mark.parametrize("id", ODD_IDS, ids=range(len(ODD_IDS)))
@pytest.mark.parametrize("form", [StreamServer, LogServer])
@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_session_may_have_any_id_with_a_server_of_any_form(form, version, id):
    class Naming(form):
        async def answer(self, request, writer):
            if request.message["method"] != "session/new":
                await super().answer(request, writer)
                return
            writer.write(response(status="202 Accepted"))
            self.say(answer(request, {"sessionId": id}))

    async def odd(server, request, writer):
        assert "x-evil" not in request.headers
        writer.write(response(status="202 Accepted"))
        hello = told("hello")
        server.say(hello | {"params": hello["params"] | {"sessionId": id}}, good(request))

    make = (lambda: Naming(odd)) if version == "1.1" else over_http2(lambda: Naming(odd))
    async with asyncio.timeout(LIMIT), listening(make()) as url, connect(url) as client:
        await has_a_turn(client, id)


async def has_a_turn(client, id):
    session = await client.new_session("/")
    assert session.id == id
    assert [u.content.text async for u in session.prompt("hi") if hasattr(u, "content")] == ["hello"]


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_connections_id_goes_back_as_it_came(version):
    """In Latin-1, as headers are; `X-Name` of ours likewise."""
    seen = []

    class Named(StreamServer):
        async def handle(self, request, writer):
            seen.append((request.headers.get("acp-connection-id"), request.headers["x-name"]))
            await super().handle(request, writer)

        async def answer(self, request, writer):
            if request.message["method"] == "initialize":
                told_id = response(answer(request, GREETING), acp_connection_id="ID")
                writer.write(told_id.replace(b"ID", b"caf\xe9"))
            else:
                await super().answer(request, writer)

    async def odd(server, request, writer):
        writer.write(response(good(request)))

    make = (lambda: Named(odd)) if version == "1.1" else over_http2(lambda: Named(odd))
    async with (
        asyncio.timeout(LIMIT),
        listening(make()) as url,
        connect(await dial_http(url, version=version, headers={"X-Name": "é"})) as client,
    ):
        assert (await (await client.new_session("/")).prompt("hi")).stop_reason == "end_turn"
    assert set(seen) == {(None, "é"), ("café", "é")}


@asynccontextmanager
async def http2_client(server):
    """A connection of HTTP/2 by hand, and what asks on it: `ask(headers)` gives the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    wire = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    wire.initiate_connection()
    writer.write(wire.data_to_send())

    async def ask(headers):
        stream = wire.get_next_available_stream_id()
        wire.send_headers(stream, headers, end_stream=True)
        writer.write(wire.data_to_send())
        while data := await reader.read(65536):
            for event in wire.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream:
                    return int(dict(event.headers)[b":status"])
            writer.write(wire.data_to_send())
        raise ConnectionResetError("the server hung up")

    try:
        yield ask
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("value", [b"caf\xe9", "café".encode(), b"\xff\xfe"])
async def test_a_header_value_of_any_bytes_leaves_a_socket_of_http2_alone(value):
    async with asyncio.timeout(LIMIT), served(Testy) as server, http2_client(server) as ask:
        head = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"127.0.0.1"), (b":path", b"/")]
        assert await ask([*head, (b"x-name", value)]) == 406
        assert await ask(head) == 406


async def in_latin_1(reader, writer, statuses=(b"200",)):
    """A server of HTTP/2 whose every answer has a header in Latin-1; a POST's answer is the answer."""
    answers = 0
    wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    wire.initiate_connection()
    writer.write(wire.data_to_send())
    bodies = {}
    while data := await reader.read(65536):
        for event in wire.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded) and event.stream_id in bodies:
                asked = json.loads(bodies[event.stream_id])
                result = {"jsonrpc": "2.0", "id": asked["id"], "result": result_of(asked["method"])}
                status, answers = statuses[answers % len(statuses)], answers + 1
                headers = [(b":status", status), (b"content-type", b"application/json"), (b"x-place", b"caf\xe9")]
                wire.send_headers(event.stream_id, headers)
                wire.send_data(event.stream_id, json.dumps(result).encode(), end_stream=True)
        writer.write(wire.data_to_send())


async def test_an_answer_over_http2_may_have_a_header_in_latin_1():
    async with (
        asyncio.timeout(LIMIT),
        listening(in_latin_1) as url,
        connect(await dial_http(url, version="2")) as client,
    ):
        session = await client.new_session("/")
        assert (await session.prompt("hello")).stop_reason == "end_turn"


@pytest.mark.parametrize("status", [b"abc", b"-1", b"9" * 5000, b"\xef\xbc\x92", b""])
async def test_an_answer_over_http2_without_a_status_fails_its_request_alone(status, caplog):
    async def serve(reader, writer):
        await in_latin_1(reader, writer, (b"200", b"200", status, b"200"))

    async with (
        asyncio.timeout(LIMIT),
        listening(serve) as url,
        connect(await dial_http(url, version="2")) as client,
    ):
        session = await client.new_session("/")
        with pytest.raises(Error, match="has no status"):
            await session.prompt("hello")
        assert (await session.prompt("hello")).stop_reason == "end_turn"
    assert not caplog.records


@pytest.mark.parametrize(
    "media_type", ["Text/Event-Stream", "text/event-stream ; charset=UTF-8", "TEXT/EVENT-STREAM"]
)
async def test_the_type_of_events_may_be_written_in_any_case(media_type):
    streams = []

    async def handle(request, writer):
        if request.method == "GET":
            writer.write(response(content_type=media_type, transfer_encoding="chunked"))
            streams.append(writer)
            return
        asked = request.message if request.body else {}
        if asked.get("method") == "initialize":
            writer.write(response(answer(request, GREETING), acp_connection_id="c1"))
            return
        writer.write(response(status="202 Accepted"))
        if "id" in asked:
            said = [told("hello")] if asked["method"] == "session/prompt" else []
            for heard in (*said, answer(request, result_of(asked["method"]))):
                data = b"data: %b\n\n" % json.dumps(heard).encode()
                streams[0].write(b"%x\r\n%b\r\n" % (len(data), data))

    async with asyncio.timeout(LIMIT), listening(answering(handle)) as url, connect(url) as client:
        session = await client.new_session("/")
        assert [u.content.text async for u in session.prompt("hi") if hasattr(u, "content")] == ["hello"]
