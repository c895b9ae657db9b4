"""The experiment behind `test_half_open`, at any size: turns of every kind of client whose connections break."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.house import hosting

from dragoman import Agent, connect, extension
from dragoman import schema as s
from dragoman.gateway.access.guard import local_names
from dragoman.gateway.attachment import attached

from .half_open import breaking
from .serving import dial, served

PLACES = ("endpoint", "gateway")
CLIENTS = ("connect", "attached")
COUNT = 400  # updates of a turn


class Telling(Agent):
    """Counts as far as it is asked, and says before that how often it was asked, and which ticks it has heard."""

    prompts = 0

    def __init__(self, client):
        super().__init__(client)
        self.ticks = []

    @extension("_counting/tick")
    def tick(self, params):
        self.ticks.append(params["number"])

    @extension("_counting/ticks")
    async def tell_ticks(self, params):
        return {"ticks": self.ticks}

    async def answer(self, turn):
        self.prompts += 1
        await turn.say(f"{turn.text} {self.prompts} ")
        for number in range(COUNT):
            await turn.say(f"{number} ")
            if number % 10 == 0:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def hosted(place):
    """A server, the headers it wants, and what makes it known under another port."""
    if place == "endpoint":
        async with served(Telling) as server:
            yield server.url(), {}, lambda port: None
        return
    with tempfile.TemporaryDirectory() as directory:
        async with hosting(Path(directory), Telling) as house:

            def name(port):
                house.web.guard.hosts |= local_names("127.0.0.1", port)

            yield house.url(wire="http"), house.headers("ann"), name


@asynccontextmanager
async def reached(client, wire, url, headers):
    if client == "connect":
        async with connect(await dial(wire, url, headers=headers)) as reached:
            yield reached
    else:
        scheme = "ws" if wire == "websocket" else "http"
        async with connect(attached(f"{scheme}://{url.partition('://')[2]}", headers=headers)) as reached:
            yield reached


async def endure(place, client, wire, kind, breaks, *, seed=0, limit=60, **options):
    """Turn after turn over connections that break; each has to arrive whole, once and in order."""
    async with asyncio.timeout(limit), hosted(place) as (url, headers, name):
        options["speaks_http2"] = wire == "http/2"
        async with breaking(url, kind, f"{place} {client} {wire} {seed}", **options) as (broken, breaker):
            name(breaker.port)
            async with reached(client, wire, broken, headers) as user:
                session = await user.new_session("/")
                breaker.break_so_many(breaks)
                turn = 0
                while not breaker.enough.is_set() or turn < 2:
                    turn += 1
                    await endure_turn(user, session, turn, ticks=place == "endpoint" and client == "connect")
    assert breaker.breaks >= breaks


async def endure_turn(user, session, turn, ticks):
    words, reasons = [], []
    async for event in session.prompt(f"turn-{turn}"):
        if isinstance(event, s.AgentMessageChunk):
            words += event.content.text.split()
            if ticks and len(words) % 20 == 0:
                user.agent.notify("_counting/tick", {"number": (turn - 1) * 20 + len(words) // 20})
        elif isinstance(event, s.PromptResponse):
            reasons.append(event.stop_reason)
    assert words == [f"turn-{turn}", str(turn), *map(str, range(COUNT))], (turn, shape(words))
    assert reasons == ["end_turn"]
    if ticks:
        assert (await user.agent.request("_counting/ticks"))["ticks"] == list(range(1, turn * 20 + 1))


def shape(words):
    """What is missing and what is double, for a message that can be read."""
    numbers = [int(word) for word in words if word.isdigit()][1:]
    missing = sorted(set(range(COUNT)) - set(numbers))
    return f"{len(words)} words; missing {missing[:5]}…; double {[n for n in numbers if numbers.count(n) > 1][:5]}"
