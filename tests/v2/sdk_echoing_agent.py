"""An agent of version 1 written with the official SDK, like its examples: it repeats the version it is asked."""

import asyncio

from acp import Agent, InitializeResponse, NewSessionResponse, PromptResponse, run_agent


class Echoing(Agent):
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        return NewSessionResponse(session_id="s")

    async def prompt(self, prompt, session_id, **kwargs):
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(Echoing()))
