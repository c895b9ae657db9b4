"""What only a WebSocket shows: its handshake, its frames, its limits."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect as dial
from websockets.exceptions import ConnectionClosed as Closed
from websockets.exceptions import InvalidStatus

from dragoman import Agent, ConnectionClosed, connect
from dragoman.agent.serving import serve_on
from dragoman.testing import Testy
from dragoman.transports.remote.client.websocket import dial_websocket
from dragoman.transports.remote.server.asgi import Endpoint, endpoint
from dragoman.transports.remote.server.server import listening

from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")

INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})


async def test_a_plain_client_is_told_its_connection_and_nothing_more():
    async with served(Testy) as server, dial(server.url(websocket=True)) as socket:
        assert len(socket.response.headers["acp-connection-id"]) == 32
        assert "last-event-id" not in socket.response.headers
        await socket.send(INITIALIZE)
        assert json.loads(await socket.recv())["result"]["protocolVersion"] == 1


async def test_messages_in_pieces_count_and_binary_ones_do_not():
    async with served(Testy) as server, dial(server.url(websocket=True)) as socket:
        await socket.send(b"\x00\xff")
        await socket.send([INITIALIZE[:5], INITIALIZE[5:20], INITIALIZE[20:]])
        assert json.loads(await socket.recv())["id"] == 1


async def test_a_request_in_a_binary_frame_is_answered_that_it_is_none():
    async with served(Testy) as server, dial(server.url(websocket=True)) as socket:
        await socket.send(INITIALIZE.encode())
        answer = json.loads(await socket.recv())
        assert (answer["id"], answer["error"]["code"]) == (1, -32600)
        assert "binary" in answer["error"]["message"]
        await socket.send(INITIALIZE)
        assert "result" in json.loads(await socket.recv())


async def test_what_is_no_message_is_answered_and_the_socket_stays():
    async with served(Testy) as server, dial(server.url(websocket=True)) as socket:
        for nonsense, code in (("{", -32700), ("[]", -32600), ("7", -32600)):
            await socket.send(nonsense)
            answer = json.loads(await socket.recv())
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        await socket.send(INITIALIZE)
        assert "result" in json.loads(await socket.recv())
        await socket.send(INITIALIZE)
        assert json.loads(await socket.recv())["error"]["code"] == -32600


async def test_pings_are_answered():
    async with served(Testy) as server, dial(server.url(websocket=True)) as socket:
        await asyncio.wait_for(await socket.ping(), 10)


async def test_what_is_not_allowed_in_is_refused_before_the_upgrade():
    async with served(Testy, origins={"https://good.example"}) as server:
        url = server.url(websocket=True)
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Acp-Connection-Id": "unheard-of", "Last-Event-ID": "0"}, 404),
        ):
            with pytest.raises(InvalidStatus) as caught:
                await dial(url, additional_headers=headers)
            assert caught.value.response.status_code == status
        async with dial(url, additional_headers={"Origin": "https://good.example"}):
            pass


async def test_a_message_that_is_too_large_ends_the_connection_and_says_why():
    agents = endpoint(Testy)
    async with listening(agents, limit=10_000) as server:
        async with dial(server.url(websocket=True)) as socket:
            await socket.send("x" * 10_001)
            with pytest.raises(Closed):
                await socket.recv()
            assert socket.close_code == 1009
        async with connect(server.url(websocket=True)) as client:
            session = await client.new_session("/")
            with pytest.raises(ConnectionClosed, match="too large"):
                await session.prompt("x" * 10_000)
        await agents.close()


async def test_a_silent_server_is_noticed(monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.client.websocket_socket.PING_EVERY", 0.02)

    async def mute(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        from websockets.utils import accept_key

        accept = accept_key(key.split(b": ")[1].decode())
        lines = ["HTTP/1.1 101 x", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}"]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.read()
        writer.close()

    async with asyncio.timeout(10), await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        wire = await dial_websocket(f"ws://127.0.0.1:{port}/")
        ended = asyncio.Event()
        wire.listen(lambda _: None, ended.set)
        await ended.wait()
        assert str(await wire.why_ended()) == "the connection dropped"
        await wire.close()


async def test_an_agent_that_hangs_up_is_not_a_drop():
    class Brief(Agent):
        async def answer(self, turn):
            self.client.wire.hang_up()
            await asyncio.Event().wait()

    async with asyncio.timeout(10), served(Brief) as server, connect(server.url(websocket=True)) as client:
        session = await client.new_session("/")
        with pytest.raises(ConnectionClosed, match="the agent hung up"):
            await session.prompt("go")


@asynccontextmanager
async def sending_away(code, why):
    """A server whose agent is told to send its client away: yields its URL, and what does so."""
    wires = []

    async def serve(wire):
        wires.append(wire)
        await serve_on(Testy, wire)

    agents = Endpoint(serve)
    async with asyncio.timeout(10), listening(agents) as server:
        yield server.url(websocket=True), lambda: wires[0].end(why, code)
        await agents.close()


async def test_a_client_that_is_sent_away_is_told_the_code_and_why():
    async with sending_away(4401, "revoked") as (url, send_away), dial(url) as socket:
        await socket.send(INITIALIZE)
        await socket.recv()
        send_away()
        with pytest.raises(Closed):
            await socket.recv()
        assert (socket.close_code, socket.close_reason) == (4401, "revoked")


async def test_a_client_that_was_sent_away_does_not_come_back():
    async with sending_away(4401, "revoked") as (url, send_away), connect(url) as client:
        session = await client.new_session("/")
        pending = session.prompt("wait")
        send_away()
        with pytest.raises(ConnectionClosed, match=r"code 4401: revoked"):
            await pending


async def test_whoever_takes_up_a_connection_ends_the_socket_before():
    async with asyncio.timeout(10), served(Testy) as server:
        url = server.url(websocket=True)
        async with dial(url, additional_headers={"Last-Event-ID": "0", "Acp-Generation": "1"}) as first:
            await first.send(f"1 {INITIALIZE}")
            answer = await first.recv()
            taken_up = {"Last-Event-ID": "0", "Acp-Connection-Id": first.response.headers["acp-connection-id"]}
            async with dial(url, additional_headers={**taken_up, "Acp-Generation": "3"}) as second:
                assert await second.recv() == answer
                await first.wait_closed()
                assert first.close_code == 1011
                with pytest.raises(InvalidStatus) as late:
                    await dial(url, additional_headers={**taken_up, "Acp-Generation": "2"})
                assert late.value.response.status_code == 409


@pytest.mark.parametrize("text", ["3 {}", "{}", "-1 {}", "x {}"])
async def test_a_socket_that_lost_a_frame_is_closed_and_can_be_taken_up(text):
    resuming = {"Last-Event-ID": "0", "Acp-Generation": "1"}
    async with asyncio.timeout(10), served(Testy) as server:
        url = server.url(websocket=True)
        async with dial(url, additional_headers=resuming) as first:
            await first.send(f"1 {INITIALIZE}")
            assert (await first.recv()).startswith('1 {"jsonrpc":"2.0","id":')
            await first.send(text)
            await first.wait_closed()
            assert first.close_code == 4409
        again = {"Last-Event-ID": "1", "Acp-Connection-Id": first.response.headers["acp-connection-id"]}
        async with dial(url, additional_headers={**again, "Acp-Generation": "2"}) as second:
            assert second.response.headers["last-event-id"] == "1"


async def test_a_client_that_does_not_get_the_headers_of_our_answer_is_served_without_resuming():
    agents = endpoint(Testy)

    async def dropping(scope, receive, send):  # as some servers and proxies do
        async def forward(event):
            await send({**event, "headers": []} if event["type"] == "websocket.accept" else event)

        await agents(scope, receive, forward)

    async with asyncio.timeout(10), listening(dropping) as server:
        async with connect(await dial_websocket(server.url(websocket=True))) as client:
            session = await client.new_session("/")
            assert (await session.prompt("echo hello")).stop_reason == "end_turn"
        await agents.close()


async def test_a_peer_that_does_not_number_its_frames_gets_a_plain_wire():
    async with (
        asyncio.timeout(10),
        served(Testy) as server,
        dial(server.url(websocket=True), additional_headers={"Last-Event-ID": "0"}) as socket,
    ):
        assert "last-event-id" not in socket.response.headers
        await socket.send(INITIALIZE)
        assert (await socket.recv()).startswith('{"jsonrpc":"2.0","id":')


async def test_whoever_is_sent_away_is_not_waited_for():
    """The agent ends although its client takes nothing any more."""
    ended = asyncio.Event()

    async def serve(wire):
        await serve_on(Testy, wire)
        ended.set()

    wires = []
    agents = Endpoint(lambda wire: wires.append(wire) or serve(wire))
    flood = {"sessionId": "", "prompt": [{"type": "text", "text": "flood 2000 10000"}]}
    async with asyncio.timeout(20), listening(agents) as server:
        async with dial(server.url(websocket=True), max_queue=1) as socket:
            await socket.send(INITIALIZE)
            await socket.recv()
            new = {"id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
            await socket.send(json.dumps({"jsonrpc": "2.0", **new}))
            while "result" not in (answer := json.loads(await socket.recv())):
                pass
            flood["sessionId"] = answer["result"]["sessionId"]
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": flood}))
            await socket.recv()
            wires[0].end("revoked", 4401)
            await ended.wait()
            socket.transport.abort()
        await agents.close()
