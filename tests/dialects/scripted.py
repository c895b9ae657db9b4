"""Peers of a dialect that a test speaks for, message by message."""

import asyncio
from contextlib import asynccontextmanager

from dragoman import connect
from dragoman.testing import raw
from dragoman.testing.pairing import RawWire
from dragoman.transports.memory import pipe

LIMIT = 10  # seconds for all that a test does with one connection


class ScriptedAgent(RawWire):
    """An agent that says what a test tells it to."""

    async def called(self, method):
        """Wait for a call of the client, and give it."""
        message = await self.receive()
        assert message["method"] == method, message
        return message

    def reply(self, request, result):
        self.send({"id": request["id"], "result": result})

    async def calls(self, method, params):
        """Call the client; gives its answer."""
        return await self.request(method, params)

    def update(self, **update):
        self.tell("session/update", {"sessionId": "sess_1", "update": update})


@asynccontextmanager
async def with_agent(client, welcome, dialect, cwd="/work", opened=None):
    """A client with a session of a scripted agent: both, and the request the session was opened with."""
    ours, theirs = pipe()
    agent = ScriptedAgent(theirs)

    async def receive():
        agent.reply(await agent.called("initialize"), welcome)

    async with asyncio.timeout(LIMIT):
        greeted = asyncio.create_task(receive())
        async with connect(ours, client, dialect=dialect) as connected:
            await greeted
            opening = asyncio.create_task(connected.new_session(cwd))
            request = await agent.called("session/new")
            agent.reply(request, {"sessionId": "sess_1", **(opened or {})})
            yield await opening, agent, request["params"]


class ScriptedClient:
    """A client that answers what it is asked with what a test put into `answers`."""

    def __init__(self, wire):
        self.wire = wire
        self.answers, self.asked, self.updates = {}, [], []

    async def call(self, method, params):
        return await self.until(self.wire.ask(method, params))

    async def until(self, id):
        """Answer everything until a request of ours is answered; gives the response."""
        while True:
            message = await self.wire.receive()
            if "method" not in message and message.get("id") == id:
                return message
            if message.get("method") == "session/update":
                self.updates.append(message["params"])
            elif "id" in message and "method" in message:
                self.asked.append((message["method"], message["params"]))
                answer = self.answers[message["method"]]
                self.wire.send({"id": message["id"], "result": answer(message) if callable(answer) else answer})


@asynccontextmanager
async def with_client(app, greeting):
    """A scripted client of an agent of ours, and what it was welcomed with; its dialect shows in the greeting."""
    async with asyncio.timeout(LIMIT), raw(app) as wire:
        client = ScriptedClient(wire)
        client.welcome = (await client.call("initialize", greeting))["result"]
        yield client
