"""The agents these tests have besides Testy; importable by the processes that serve them."""

import asyncio
import os

from dragoman import Agent, agent, extension
from dragoman import schema as s
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
