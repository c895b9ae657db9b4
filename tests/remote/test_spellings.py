"""What may be written in more than one way is understood in each: ids, header values, media types."""

import asyncio
import json
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import pytest

from dragoman import connect
from dragoman.testing import Testy
from dragoman.transports import accepted
from dragoman.transports.http import dial_http

from .by_hand import by_hand, message
from .foreign import GREETING, answer, answering, listening, response, result_of, told
from .serving import served

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


async def test_a_connection_may_open_and_close_any_number_of_sessions(monkeypatch):
    monkeypatch.setattr(accepted, "MAX_STREAMS", 8)
    async with asyncio.timeout(LIMIT), served(Testy) as server, by_hand(server) as client:
        await client.initialize()
        async with client.events() as common:
            for number in range(30):
                session = await client.open_session(common)
                async with client.events(session) as of_session:
                    about = {"sessionId": session}
                    close = {"id": number, "method": "session/close", "params": about}
                    await client.post(close, acp_session_id=session)
                    while "result" not in (heard := await message(of_session)):
                        pass
                    assert heard["id"] == number
                    while await of_session.get() is not None:
                        pass
            (wire,) = server.endpoint._wires.values()
            assert len(wire.streams) <= 3


async def test_sessions_that_were_closed_and_never_read_leave_room_for_others(monkeypatch):
    monkeypatch.setattr(accepted, "MAX_STREAMS", 8)
    async with asyncio.timeout(LIMIT), served(Testy) as server, by_hand(server) as client:
        await client.initialize()
        async with client.events() as common:
            for number in range(30):
                session = await client.open_session(common)
                close = {"id": number, "method": "session/close", "params": {"sessionId": session}}
                await client.post(close, acp_session_id=session)
            session = await client.open_session(common)
            async with client.events(session) as of_session:
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "echo hello"}]}
                await client.post({"id": "p", "method": "session/prompt", "params": prompt}, acp_session_id=session)
                while "result" not in (heard := await message(of_session)):
                    pass
                assert heard["id"] == "p"


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


async def over_http2(reader, writer):
    """A server of HTTP/2 whose every answer has a header in Latin-1; a POST's answer is the answer."""
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
                headers = [(b":status", b"200"), (b"content-type", b"application/json"), (b"x-place", b"caf\xe9")]
                wire.send_headers(event.stream_id, headers)
                wire.send_data(event.stream_id, json.dumps(result).encode(), end_stream=True)
        writer.write(wire.data_to_send())


async def test_an_answer_over_http2_may_have_a_header_in_latin_1():
    async with (
        asyncio.timeout(LIMIT),
        listening(over_http2) as url,
        connect(await dial_http(url, version="2")) as client,
    ):
        session = await client.new_session("/")
        assert (await session.prompt("hello")).stop_reason == "end_turn"


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
