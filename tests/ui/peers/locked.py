"""An agent that has no session for somebody who has not logged in."""

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import AuthRequired


class Locked(Agent):
    auth_methods = (s.AuthMethodAgent(id="key", name="With a key"),)

    async def authenticate(self, params):
        return s.AuthenticateResponse()

    async def opened(self, session):
        raise AuthRequired()

    async def answer(self, turn): ...


serve(Locked)
