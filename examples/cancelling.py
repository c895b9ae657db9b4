"""Cancelling a turn: the agent cleans up, says its last words, and the prompt ends as cancelled."""

import asyncio

from dragoman import Agent, Turn, connect
from dragoman.schema import AgentMessageChunk, TextContent


class Slow(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say("Working… ")
        try:
            await asyncio.Event().wait()
        finally:
            await turn.say("cleaned up.")


async def main() -> None:
    async with connect(Slow) as client:
        session = await client.new_session()
        turn = session.prompt("take your time")
        async for event in turn:
            match event:
                case AgentMessageChunk(content=TextContent(text="Working… " as text)):
                    print(text)
                    session.cancel()
                case AgentMessageChunk(content=TextContent(text=text)):
                    print(text)
        print(turn.response.stop_reason)


asyncio.run(main())
