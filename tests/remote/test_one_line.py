"""A frame is one line on every wire, however its sender wrote it."""

import asyncio
import json
import sys

import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.asyncio.server import serve as serve_websocket

from dragoman import connect
from dragoman.transports.remote.server.asgi import Endpoint
from dragoman.transports.remote.server.server import listening as serving

from .by_hand import INITIALIZE, JSON, by_hand
from .foreign import GREETING, SESSION, answer, answering, listening, response, result_of, told

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 20  # seconds
BREAKS = ("\n", "\r\n", "\r")


def pretty(message, line_break="\n"):
    return json.dumps(message, indent=2).replace("\n", line_break)


def events(*messages):
    """Messages as events whose data has a line for each line of the JSON."""
    lines = ["".join(f"data: {line}\n" for line in pretty(message).splitlines()) for message in messages]
    return "".join(f"{event}\n" for event in lines).encode()


async def over_websocket(websocket):
    async for text in websocket:
        request = json.loads(text)
        if request["method"] == "session/prompt":
            await websocket.send(pretty(told("hello"), "\r\n"))
        if "id" in request:
            result = result_of(request["method"])
            await websocket.send(pretty({"jsonrpc": "2.0", "id": request["id"], "result": result}, "\r"))


async def over_posts(request, writer):
    body = pretty(answer(request, result_of(request.message["method"])))
    writer.write(response(body.encode()))


async def over_events(request, writer):
    """The draft's form, with the connection's stream alone."""
    global stream
    if request.method == "GET":
        writer.write(response(content_type="text/event-stream", transfer_encoding="chunked"))
        stream = writer
        return
    message = request.message if request.body else {}
    if message.get("method") == "initialize":
        writer.write(response(pretty(answer(request, GREETING)).encode(), acp_connection_id="c1"))
        return
    writer.write(response(status="202 Accepted"))
    if "id" in message:
        before = [told("hello")] if message["method"] == "session/prompt" else []
        data = events(*before, answer(request, result_of(message["method"])))
        stream.write(b"%x\r\n%b\r\n" % (len(data), data))


async def lines_through_the_shim(url, prompts=1):
    """What `dragoman connect` prints for a short conversation, line by line, until every request is answered."""
    asked = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": "/", "mcpServers": []}),
        *[("session/prompt", {"sessionId": SESSION, "prompt": [{"type": "text", "text": "hi"}]})] * prompts,
    ]
    shim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "connect", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    lines = []
    try:
        for id, (method, params) in enumerate(asked):
            request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            shim.stdin.write(json.dumps(request).encode() + b"\n")
            while True:
                lines.append(json.loads(await shim.stdout.readline()))
                if lines[-1].get("id") == id:
                    break
        return lines
    finally:
        shim.stdin.close()
        await shim.wait()
        shim._transport.close()


@pytest.mark.parametrize("form", ["websocket", "posts", "events"])
async def test_what_a_server_writes_over_several_lines_is_one_line_to_an_editor(form):
    async with asyncio.timeout(LIMIT):
        if form == "websocket":
            async with serve_websocket(over_websocket, "127.0.0.1", 0) as server:
                lines = await lines_through_the_shim(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        else:
            async with listening(answering(over_posts if form == "posts" else over_events)) as url:
                lines = await lines_through_the_shim(url)
    assert [line.get("id", line.get("method")) for line in lines] == (
        [0, 1, 2] if form == "posts" else [0, 1, "session/update", 2]
    )


async def frames_heard(send):
    """What an agent's wire hears of what `send(server)` sends it."""
    heard = []

    async def serve(wire):
        over = asyncio.Event()

        def hear(frames):
            heard.extend(frames)
            for frame in frames:
                if json.loads(frame).get("method") == "initialize":
                    wire.send([json.dumps({"jsonrpc": "2.0", "id": 1, "result": GREETING}).encode()])

        wire.listen(hear, over.set)
        await over.wait()

    endpoint = Endpoint(serve)
    async with asyncio.timeout(LIMIT), serving(endpoint) as server:
        try:
            await send(server)
        finally:
            await endpoint.close()
    return heard


@pytest.mark.parametrize("line_break", BREAKS)
async def test_what_a_client_posts_over_several_lines_is_one_line_to_an_agent(line_break):
    note = {"jsonrpc": "2.0", "method": "_note", "params": {"text": "a\nb", "list": [1, 2.50, {}]}}

    async def send(server):
        async with by_hand(server) as client:
            reply, _ = await client.reply("POST", JSON, pretty(INITIALIZE, line_break).encode())
            id = reply.get("acp-connection-id")
            await client.ask("POST", JSON, pretty(note, line_break).encode(), acp_connection_id=id)

    heard = await frames_heard(send)
    assert [json.loads(frame) for frame in heard] == [INITIALIZE, note]
    assert not [frame for frame in heard if b"\n" in frame or b"\r" in frame]


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize("resumes", [True, False])
async def test_what_a_client_sends_on_a_websocket_over_several_lines_is_one_line_to_an_agent(line_break, resumes):
    headers = {"last-event-id": "0", "acp-generation": "1"} if resumes else {}

    async def send(server):
        async with open_websocket(server.url(websocket=True), additional_headers=headers) as websocket:
            await websocket.send(("1 " if resumes else "") + pretty(INITIALIZE, line_break))
            await websocket.recv()

    (frame,) = await frames_heard(send)
    assert json.loads(frame) == INITIALIZE
    assert b"\n" not in frame
    assert b"\r" not in frame


async def test_raw_parameters_written_over_several_lines_are_one_line_to_a_process():
    """What a program hands us as bytes goes out as one line, too."""
    import msgspec

    from dragoman.events import Method

    echo = [sys.executable, "-m", "dragoman", "agent", "testy"]
    async with asyncio.timeout(LIMIT), connect(echo) as client:
        session = await client.new_session("/")
        prompt = {"sessionId": session.id, "prompt": [{"type": "text", "text": "a\nb"}]}
        method = Method("session/prompt", msgspec.Raw, msgspec.Raw)
        result = await client.connection.call(method, msgspec.Raw(pretty(prompt).encode()))
        assert msgspec.json.decode(result)["stopReason"] == "end_turn"
