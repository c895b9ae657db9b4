"""The agents these tests have besides Testy; importable by the processes that serve them."""

from dragoman import Agent, agent
from dragoman import schema as s
from dragoman.testing import Testy


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
