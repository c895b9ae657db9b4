"""Who is on stage: an agent that counts and asks, and a client that notes what it was asked."""

import asyncio

from dragoman import Agent, Client
from dragoman import schema as s


class Counting(Agent):
    """Asked for a number, counts up to it, and reads a file at every fiftieth step."""

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


async def counted(session, count):
    """The numbers a counting agent said, and why it stopped."""
    words, reason = [], None
    async for event in session.prompt(str(count)):
        if isinstance(event, s.AgentMessageChunk):
            words.append(event.content.text)
        elif isinstance(event, s.PromptResponse):
            assert reason is None
            reason = event.stop_reason
    return [int(word) for word in "".join(words).split()], reason
