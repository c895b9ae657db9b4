"""An agent written with the official SDK: says every block of a prompt back, one chunk each."""

import asyncio
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    update_agent_message,
)


class Echo(Agent):
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **kwargs):
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt, session_id, **kwargs):
        for block in prompt:
            await self.client.session_update(session_id, update_agent_message(block))
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(Echo()))
