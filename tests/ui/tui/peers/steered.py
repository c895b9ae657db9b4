"""Takes prompts into the turn that runs: `wait` lasts until one has come."""

import asyncio

from msgspec import structs

from dragoman import Agent, serve
from dragoman.roles import extension


class Steered(Agent):
    async def initialize(self, params):
        self.steered = asyncio.Queue()
        response = await super().initialize(params)
        offers = structs.replace(response.agent_capabilities, meta={"steering": {"supported": True}})
        return structs.replace(response, agent_capabilities=offers)

    async def answer(self, turn):
        await turn.say("Waiting. ")
        await turn.say(f"Steered: {await self.steered.get()}")

    @extension("_session/steering")
    async def steering(self, params: dict):
        self.steered.put_nowait(params["prompt"][0]["text"])
        return {}


serve(Steered)
