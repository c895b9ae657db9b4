"""Speaking to the endpoint by hand: requests as a foreign client makes them."""

import asyncio
import json
from contextlib import asynccontextmanager

from dragoman.framing import MAX_FRAME
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.client.link import ServerLink
from dragoman.transports.remote.sse import EventReader

JSON = {"content-type": "application/json"}
EVENTS = {"accept": "text/event-stream"}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


class ByHand:
    def __init__(self, link):
        self._link = link
        self.id = ""

    async def ask(self, method, headers=None, body=b"", **others):
        """The status and body of one request; `others` are headers with underscores for dashes."""
        reply, answer = await self.reply(method, headers, body, **others)
        return reply.status, answer

    async def reply(self, method, headers=None, body=b"", **others):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {**(headers or {}), **{name.replace("_", "-"): value for name, value in others.items()}}
        return await self._link.ask(method, list(named.items()), data, timeout=10)

    async def initialize(self, **headers):
        reply, body = await self.reply("POST", JSON, INITIALIZE, **headers)
        assert reply.status == 200, body
        self.id = reply.get("acp-connection-id")
        return reply

    async def post(self, message, **headers):
        return await self.ask("POST", JSON, {"jsonrpc": "2.0", **message}, acp_connection_id=self.id, **headers)

    @asynccontextmanager
    async def events(self, session=None, **headers):
        """The events of a stream, as a queue; None at its end."""
        queue, reader = asyncio.Queue(), EventReader()

        def heard(data):
            for event in reader.feed(data):
                queue.put_nowait(event)

        named = {**EVENTS, "acp-connection-id": self.id, **({"acp-session-id": session} if session else {})}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        exchange = await self._link.begin("GET", list(named.items()), b"", heard, lambda _: queue.put_nowait(None))
        try:
            assert (await exchange.reply).status == 200
            yield queue
        finally:
            exchange.cancel()

    async def open_session(self, queue):
        """A new session's id; its answer comes on the connection's stream."""
        await self.post({"id": "new", "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
        return (await message(queue))["result"]["sessionId"]


async def message(queue):
    async with asyncio.timeout(10):
        return json.loads((await queue.get()).data)


@asynccontextmanager
async def by_hand(server, version="1.1"):
    link = ServerLink(*read_url(server.url()), None, version, MAX_FRAME)
    try:
        yield ByHand(link)
    finally:
        await link.close()
