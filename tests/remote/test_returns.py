"""A server that says a frame after each return and then drops: the client comes back at a rate that has a limit."""

import asyncio
import json

import pytest

from dragoman import ConnectionClosed, connect
from dragoman import schema as s
from dragoman.transports.remote import addresses

from .foreign import answering, listening, response, result_of, told
from .hostile_servers import chunk, events, read_frame, switch_protocols, text
from .serving import dial

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 30  # seconds
RETURNS = 40
AT_ONCE, RATE = 10, 20.0


class Dropping:
    """Keeps a log, as ours does, and drops every socket right after the first frame on it."""

    def __init__(self):
        self.returns = []  # when each was
        self.log = []
        self.heard = 0
        self.enough = asyncio.Event()
        self.is_prompted = False

    def take(self, message):
        """Note the answer to a message, if it has one; a prompt is never answered."""
        if message.get("method") == "session/prompt":
            self.is_prompted = True
        elif "id" in message:
            self.log.append({"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"])})

    def next_frame(self, number):
        """What comes after the frame with this number: an update, for as long as the client wants more."""
        if self.is_prompted and number == len(self.log):
            self.log.append(told("hello"))
        return self.log[number] if number < len(self.log) else None

    def note_return(self):
        if self.is_prompted:
            self.returns.append(asyncio.get_running_loop().time())
            if len(self.returns) == RETURNS:
                self.enough.set()


class OverWebSocket(Dropping):
    async def __call__(self, reader, writer):
        request = await switch_protocols(
            reader,
            writer,
            lambda r: {"acp-connection-id": "c", "acp-generation": r["acp-generation"], **self.place()},
        )
        self.note_return()
        number = int(request.headers["last-event-id"])
        while not self.is_prompted:
            opcode, data = await read_frame(reader)
            if opcode != 1:
                continue
            self.heard += 1
            self.take(json.loads(data.partition(b" ")[2]))
            if frame := self.next_frame(number):
                number += 1
                writer.write(text(b"%d %b" % (number, json.dumps(frame).encode())))
        if frame := self.next_frame(number):
            writer.write(text(b"%d %b" % (number + 1, json.dumps(frame).encode())))
        await writer.drain()

    def place(self):
        return {"last-event-id": str(self.heard)}


class OverHttp(Dropping):
    def __init__(self):
        super().__init__()
        self._answering = answering(self._answer)
        self.stream, self.number = None, 0

    async def __call__(self, reader, writer):
        await self._answering(reader, writer)

    async def _answer(self, request, writer):
        if request.method == "GET":
            self.note_return()
            self.stream, self.number = writer, int(request.headers["last-event-id"])
            writer.write(response(content_type="text/event-stream", transfer_encoding="chunked"))
            self._say()
        elif request.method == "POST" and not request.body:
            writer.write(response(status="202 Accepted"))
        elif request.method == "POST" and "acp-connection-id" not in request.headers:
            greeting = {"jsonrpc": "2.0", "id": request.message["id"], "result": result_of("initialize")}
            writer.write(response(greeting, acp_connection_id="c", last_event_id=0))
        else:
            writer.write(response(status="202 Accepted"))
            if request.method == "POST":
                self.take(request.message)
                self._say()

    def _say(self):
        if self.stream and (frame := self.next_frame(self.number)):
            data = b"id: %d\n%b" % (self.number + 1, events(frame))
            self.number += 1
            self.stream.write(b"%x\r\n%b\r\n" % (len(data), data))
            if self.is_prompted:
                self.stream.close()
                self.stream = None


@pytest.mark.parametrize(("wire", "server"), [("websocket", OverWebSocket), ("http/1.1", OverHttp)])
async def test_returns_that_lead_to_a_frame_each_have_a_rate(wire, server, monkeypatch):
    monkeypatch.setattr(addresses, "MAX_RETURNS", AT_ONCE)
    monkeypatch.setattr(addresses, "RETURN_RATE", RATE)
    dropping, said = server(), 0
    async with asyncio.timeout(LIMIT), listening(dropping) as url, connect(await dial(wire, url)) as client:
        began = asyncio.get_running_loop().time()
        async for update in (await client.new_session("/")).prompt("go"):
            said += isinstance(update, s.AgentMessageChunk)
            if dropping.enough.is_set():
                break
    assert dropping.returns[RETURNS - 1] - began >= (RETURNS - AT_ONCE) / RATE - 0.01
    assert said >= RETURNS - 1  # and nothing that was said is lost


class Ending(OverHttp):
    """Says that the connection is over, and leaves the socket open."""

    def take(self, message):
        if message.get("method") == "session/prompt":
            self.stream.write(chunk(b"event: end\ndata: it is late\n\n"))
        else:
            super().take(message)


async def test_a_connection_that_a_server_says_is_over_is_over_at_once():
    async with asyncio.timeout(LIMIT), listening(Ending()) as url, connect(await dial("http/1.1", url)) as client:
        with pytest.raises(ConnectionClosed, match="it is late"):
            await (await client.new_session("/")).prompt("go")
