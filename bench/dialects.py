"""What translating costs: updates a second through a real agent's process, by the dialect spoken on the wire.

python dialects.py [SAMPLES]      the best of so many samples, the dialects taking turns
"""

import asyncio
import sys
import time

from work import CHUNK

from dragoman import connect
from dragoman.dialects import NAMES

UPDATES = 20_000
REQUIRED = 1 / 3  # of the rate without a translator
AGENT = f"""
import sys
from dragoman import Agent, serve

class Talker(Agent):
    async def answer(self, turn):
        for _ in range({UPDATES}):
            await turn.say({CHUNK!r})

serve(Talker, dialect=sys.argv[1])
"""


async def rate(dialect: str) -> float:
    """Updates a second of one turn; the agent translates what it says, and the client translates it back."""
    async with connect([sys.executable, "-c", AGENT, dialect], dialect=dialect) as client:
        session = await client.new_session()
        start, updates = time.perf_counter(), -1  # the last one is the response
        async for _ in session.prompt("go"):
            updates += 1
        return updates / (time.perf_counter() - start)


def main(samples: int) -> None:
    best = dict.fromkeys(NAMES, 0.0)
    for _ in range(samples):
        for dialect in best:
            best[dialect] = max(best[dialect], asyncio.run(rate(dialect)))
    for dialect, found in best.items():
        share = found / best["v1"]
        print(f"{dialect:10} {found:10,.0f} /s {share:6.2f} {'' if share >= REQUIRED else 'too slow'}".rstrip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
