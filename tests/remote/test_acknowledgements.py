"""A server stops sending until its client acknowledges events: whatever happens to acknowledgements, it goes on."""

import asyncio

import pytest

from dragoman import Agent, connect
from dragoman.schema import AgentMessageChunk
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening

from .serving import dial

LIMIT = 60
CHUNK = 200 * 1024  # two such updates are more than may be unacknowledged
COUNT = 30


class Flood(Agent):
    async def answer(self, turn):
        for _ in range(COUNT):
            await turn.say("x" * CHUNK)


class Between:
    """Stands between server and endpoint; sees acknowledgements, and counts the bytes of the event stream."""

    def __init__(self, app):
        self._app = app
        self.sent = 0
        self.acknowledged = 0
        self._more = asyncio.Event()

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers") or ())
        if scope["method"] == "POST" and b"acp-connection-id" in headers and b"idempotency-key" not in headers:
            self.acknowledged += 1
            await self.acknowledge(scope, receive, send)
        elif scope["method"] == "GET":
            await self._app(scope, receive, lambda event: self._count(event, send))
        else:
            await self._app(scope, receive, send)

    async def acknowledge(self, scope, receive, send):
        await self._app(scope, receive, send)

    async def _count(self, event, send):
        await send(event)
        self.sent += len(event.get("body", b""))
        self._more.set()

    async def reached(self, size):
        while self.sent < size:
            self._more.clear()
            await self._more.wait()


class Slow(Between):
    """Tells the client that its acknowledgement arrived only after the events that it lets through."""

    async def acknowledge(self, scope, receive, send):
        answers = []

        async def keep(event):
            answers.append(event)

        await self._app(scope, receive, keep)
        number = int(dict(scope["headers"])[b"last-event-id"])
        await self.reached(min(number + 2, COUNT) * CHUNK)
        for event in answers:
            await send(event)


class Busy(Between):
    """Refuses the first acknowledgements, as a proxy does whose server is busy."""

    async def acknowledge(self, scope, receive, send):
        if self.acknowledged > 3:
            await self._app(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})


class Broken(Between):
    """Ends the first acknowledgements without an answer."""

    async def acknowledge(self, scope, receive, send):
        if self.acknowledged > 2:
            await self._app(scope, receive, send)
        else:
            raise ConnectionResetError("this acknowledgement is lost")


@pytest.mark.parametrize("wire", ["http/1.1", "http/2"])
@pytest.mark.parametrize("between", [Between, Slow, Busy, Broken])
async def test_a_flood_of_updates_arrives_whatever_becomes_of_acknowledgements(between, wire):
    agents = endpoint(Flood)
    middle = between(agents)
    async with asyncio.timeout(LIMIT), listening(middle) as server:
        async with connect(await dial(wire, server.url("/acp"))) as client:
            session = await client.new_session("/")
            seen = 0
            async for event in session.prompt("Go."):
                seen += isinstance(event, AgentMessageChunk)
        await agents.close()
    assert seen == COUNT
    assert middle.acknowledged > 3
