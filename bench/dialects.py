"""What translating costs: processor time for an update, at either end, by the dialect spoken on the wire.

python dialects.py [SAMPLES]      the best of so many samples, the dialects taking turns

The agent translates what it says, and the client translates it back; the stream is as fast as the slower of them.
"""

import asyncio
import sys
import time

from work import CHUNK

from dragoman import connect
from dragoman.dialects import NAMES
from dragoman.schema import AgentMessageChunk, TextContent

UPDATES = 20_000
REQUIRED = 1 / 3  # of the speed without a translator
AGENT = f"""
import sys, time
from dragoman import Agent, serve

class Talker(Agent):
    async def answer(self, turn):
        start = time.process_time()
        for _ in range({UPDATES}):
            await turn.say({CHUNK!r})
        await turn.say(str(time.process_time() - start))

serve(Talker, dialect=sys.argv[1])
"""


async def sample(dialect: str) -> tuple[float, float]:
    """Microseconds for an update: the agent's, and the client's."""
    async with connect([sys.executable, "-c", AGENT, dialect], dialect=dialect) as client:
        session, spent = await client.new_session(), 0.0
        start = time.process_time()
        async for event in session.prompt("go"):
            match event:
                case AgentMessageChunk(content=TextContent(text=text)) if text and text != CHUNK:
                    spent = float(text)
        return spent / UPDATES * 1e6, (time.process_time() - start) / UPDATES * 1e6


def main(samples: int) -> None:
    best = dict.fromkeys(NAMES, (float("inf"), float("inf")))
    for _ in range(samples):
        for dialect in best:
            agent, client = asyncio.run(sample(dialect))
            best[dialect] = (min(agent, best[dialect][0]), min(client, best[dialect][1]))
    plain = max(best["v1"])
    for dialect, (agent, client) in best.items():
        share = plain / max(agent, client)
        slow = "" if share >= REQUIRED else "too slow"
        print(f"{dialect:10} agent {agent:6.2f} µs  client {client:6.2f} µs  {share:5.2f} of v1 {slow}".rstrip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
