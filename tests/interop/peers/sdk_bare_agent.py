"""What the SDK's own base class answers: this agent promises a lot and has written nothing but the handshake."""

import asyncio

from acp import PROTOCOL_VERSION, Agent, run_agent
from acp.schema import (
    AgentCapabilities,
    InitializeResponse,
    SessionCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
)


class Bare(Agent):
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        sessions = SessionCapabilities(list=SessionListCapabilities(), fork=SessionForkCapabilities())
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True, session_capabilities=sessions),
        )


asyncio.run(run_agent(Bare(), use_unstable_protocol=True))
