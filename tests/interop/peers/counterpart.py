"""Our agent for the TypeScript SDK's client: counts, asks for permission, waits to be cancelled."""

import asyncio

from dragoman import Agent, Turn, serve


class Counterpart(Agent):
    async def answer(self, turn: Turn) -> None:
        if turn.text == "count":
            for number in range(100):
                await turn.say(str(number))
        elif turn.text == "ask":
            async with turn.tool("Ask") as call:
                await turn.say("yes" if await turn.ask(call) else "no")
        else:
            await turn.say("waiting")
            await asyncio.Event().wait()


if __name__ == "__main__":
    serve(Counterpart)
