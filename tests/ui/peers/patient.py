"""An agent that asks, takes any answer, and then waits until it is cancelled."""

import asyncio
import contextlib

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import RpcError


class Patient(Agent):
    async def answer(self, turn):
        with contextlib.suppress(RpcError):
            await turn.ask(s.ToolCallUpdate(tool_call_id="call", title="A job"))
        await asyncio.Event().wait()


serve(Patient)
