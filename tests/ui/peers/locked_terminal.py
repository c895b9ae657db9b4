"""Wants a login at a terminal, and says so to clients that have one."""

import dragoman
from dragoman import schema as s

WAYS = (
    s.AuthMethodTerminal(
        id="browser",
        name="In a browser",
        description="opens one",
        args=["--login", "two words"],
        env={"MODE": "login"},
    ),
    s.AuthMethodAgent(
        id="old", name="The older way", meta={"terminal-auth": {"command": "agent", "args": ["login"]}}
    ),
    s.AuthMethodAgent(id="odd", name="", meta={"terminal-auth": {"command": 1}}),
)


class Locked(dragoman.Agent):
    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        self.auth_methods = WAYS if params.client_capabilities.auth.terminal else ()
        return await super().initialize(params)

    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        raise dragoman.AuthRequired()

    async def answer(self, turn: dragoman.Turn) -> None:
        await turn.say("Never.")


dragoman.serve(Locked)
