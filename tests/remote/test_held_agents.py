"""An agent that has to wait until its client has heard it, and a client that drops and comes back meanwhile."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager

import pytest
import websockets
from skipped_time import skipped_time

from dragoman.testing import Testy

from .by_hand import by_hand
from .serving import served

pytestmark = pytest.mark.usefixtures("nothing_left")

FLOOD = 5000  # updates of 300 characters: far more than may be unacknowledged


class OverHttp:
    """Reads one stream, and acknowledges nothing until it comes back."""

    def __init__(self, server):
        self._server, self._generation, self.heard = server, 0, []

    @asynccontextmanager
    async def open(self):
        async with by_hand(self._server) as self._hand:
            await self._hand.initialize(last_event_id="0")
            yield

    async def post(self, number, message):
        status, _ = await self._hand.post(message, idempotency_key=str(number))
        assert status == 202

    @asynccontextmanager
    async def reading(self):
        self._generation += 1
        place = {"last_event_id": str(len(self.heard)), "acp_generation": str(self._generation)}
        async with self._hand.events(**place) as queue:
            yield lambda: self._take(queue)

    async def _take(self, queue):
        self.heard.append(json.loads((await queue.get()).data))


class OverWebSocket:
    def __init__(self, server):
        self._url, self._generation, self.heard = server.url(websocket=True), 0, []
        self._id = None

    @asynccontextmanager
    async def open(self):
        self._outbox = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}]
        yield

    async def post(self, number, message):
        self._outbox.append({"jsonrpc": "2.0", **message})
        await self._send()

    async def _send(self):
        while self._outbox:
            self._sent += 1
            await self._socket.send(f"{self._sent} {json.dumps(self._outbox.pop(0))}")

    @asynccontextmanager
    async def reading(self):
        self._generation += 1
        headers = {"last-event-id": str(len(self.heard)), "acp-generation": str(self._generation)}
        headers |= {"acp-connection-id": self._id} if self._id else {}
        async with websockets.connect(self._url, additional_headers=headers, ping_interval=None) as self._socket:
            self._id = self._socket.response.headers["acp-connection-id"]
            self._sent = int(self._socket.response.headers["last-event-id"])
            await self._send()
            if not self.heard:
                assert (await self._take())["id"] == 0
            yield self._take
            self._socket.transport.abort()

    async def _take(self):
        number, _, frame = (await self._socket.recv()).partition(" ")
        assert int(number) == len(self.heard) + 1
        self.heard.append(json.loads(frame))
        return self.heard[-1]


@pytest.mark.parametrize("way", [OverHttp, OverWebSocket])
async def test_an_agent_that_waits_for_its_client_goes_on_when_that_returns_with_everything(way):
    """All that was sent has arrived, nothing of it was acknowledged, and then the connection drops."""
    with skipped_time():
        async with served(Testy) as server:
            client = way(server)
            async with client.open():
                async with client.reading() as take:
                    await client.post(
                        1, {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
                    )
                    while client.heard[-1:] == [] or client.heard[-1].get("id") != 1:
                        await take()
                    session = client.heard[-1]["result"]["sessionId"]
                    flood = {"sessionId": session, "prompt": [{"type": "text", "text": f"flood {FLOOD} 300"}]}
                    await client.post(2, {"id": 2, "method": "session/prompt", "params": flood})
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(5):  # of that clock: the agent waits to be heard
                            while True:
                                await take()
                    assert len(client.heard) < FLOOD
                while client.heard[-1].get("id") != 2:
                    before = len(client.heard)
                    async with client.reading() as take:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(5):
                                while client.heard[-1].get("id") != 2:
                                    await take()
                    assert len(client.heard) > before
    assert sum(message.get("method") == "session/update" for message in client.heard) >= FLOOD
