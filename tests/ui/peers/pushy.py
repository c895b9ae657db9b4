"""An agent that asks three things at once, and goes on asking when its turn was cancelled."""

import asyncio

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import RpcError


class Pushy(Agent):
    async def answer(self, turn):
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(
                        turn.ask(s.ToolCallUpdate(tool_call_id=f"call-{number}", title=f"Job {number}"))
                    )
            await asyncio.Event().wait()
        finally:
            try:
                await turn.write("sneaked.txt", "in")
            except RpcError:
                await turn.say("No luck.")


serve(Pushy)
