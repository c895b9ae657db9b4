"""An agent that has no session for somebody who has not logged in; says what it is told to say of it."""

import sys

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import AuthRequired


class Locked(Agent):
    auth_methods = (s.AuthMethodAgent(id="key", name="With a key"),)

    is_known = False

    async def authenticate(self, params):
        self.is_known = True
        return s.AuthenticateResponse()

    async def opened(self, session):
        if not self.is_known:
            raise AuthRequired(*sys.argv[1:])

    async def answer(self, turn):
        await turn.say("welcome")


serve(Locked)
