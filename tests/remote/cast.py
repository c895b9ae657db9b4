"""Who is on stage: an agent that counts and asks, and a client that notes what it was asked."""

import asyncio

from dragoman import Agent, Client, extension
from dragoman import schema as s


class Counting(Agent):
    """Asked for a number, counts up to it, and reads a file at every fiftieth step; notes every tick it hears."""

    def __init__(self, client):
        super().__init__(client)
        self.ticks = []

    @extension("_counting/tick")
    def tick(self, params):
        self.ticks.append(params["number"])

    @extension("_counting/ticks")
    async def tell_ticks(self, params):
        return {"ticks": self.ticks}

    async def answer(self, turn):
        for number in range(int(turn.text)):
            await turn.say(f"{number} ")
            if number % 50 == 0:
                assert await turn.read(f"/{number}") == f"content of /{number}"
            if number % 10 == 0:
                await asyncio.sleep(0)


class Noting(Client):
    def __init__(self):
        super().__init__()
        self.asked = []

    async def read_text_file(self, params):
        self.asked.append(params.path)
        return s.ReadTextFileResponse(content=f"content of {params.path}")


async def counted(session, count, tick=lambda: None):
    """The numbers a counting agent said, and why it stopped; `tick` is called at every 25th of them."""
    words, reason = [], None
    async for event in session.prompt(str(count)):
        if isinstance(event, s.AgentMessageChunk):
            words.append(event.content.text)
            if len(words) % 25 == 0:
                tick()
        elif isinstance(event, s.PromptResponse):
            assert reason is None
            reason = event.stop_reason
    return [int(word) for word in "".join(words).split()], reason
