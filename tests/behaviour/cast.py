"""The agents these tests have besides Testy; importable by the processes that serve them."""

import asyncio
import contextlib
import os

from dragoman import Agent, Proxy, compose, extension
from dragoman import schema as s
from dragoman.agent import agent
from dragoman.testing import Testy, script


class Modest(Agent):
    """Offers nothing but to answer prompts."""

    async def answer(self, turn):
        await turn.say(turn.text)


class Unwritten(Agent):
    """An agent whose author has written nothing at all."""


class Guarded(Testy):
    """Opens no session before somebody has logged in."""

    needs_login = True


class Impatient(Testy):
    """Gives a cancelled turn a fifth of a second to end."""

    async def __aenter__(self):
        self._patience, agent.CANCEL_PATIENCE = agent.CANCEL_PATIENCE, 0.2
        return await super().__aenter__()

    async def __aexit__(self, *exc):
        agent.CANCEL_PATIENCE = self._patience


class Lingering(Impatient):
    """Its prompt `linger` ignores being cancelled, until somebody asks for `_lingering/release`."""

    def __init__(self, client):
        super().__init__(client)
        self._released, self._gone = asyncio.Event(), asyncio.Event()

    async def answer(self, turn):
        if turn.text != "linger":
            return await super().answer(turn)
        await turn.say("Lingering.")
        while not self._released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self._released.wait()
        self._gone.set()
        return None

    @extension("_lingering/release")
    async def release(self, params):
        self._released.set()
        await self._gone.wait()


class Loading(Testy):
    """Has something to say about a session before it answers session/new."""

    async def opened(self, session):
        await super().opened(session)
        await session.update(s.CurrentModeUpdate(current_mode_id="plan"))
        await session.set_title("Early")


class Sulking(Testy):
    """Fails when it is cancelled."""

    async def answer(self, turn):
        await turn.say("Waiting.")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("how rude") from None


class Flooding(Agent):
    """Streams without remembering: `COUNT SIZE`."""

    async def answer(self, turn):
        await script.flood(turn, turn.text)

    @extension("_flooding/ping")
    async def ping(self, params):
        return os.getpid()


class Steady(Flooding):
    """Streams with other things to do in between, as one does that has its words from somewhere else."""

    async def answer(self, turn):
        count, size = map(int, turn.text.split())
        for number in range(count):
            await turn.say(f"{number} ".ljust(size, "."))
            await asyncio.sleep(0)


class Passing(Proxy):
    """A proxy that does nothing at all."""


def Proxied(client):
    """Testy behind a proxy, as one app."""
    return compose(Passing, Testy)(client)
