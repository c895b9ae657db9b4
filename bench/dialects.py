"""What translating costs: streamed updates a second, by the clock and by the dialect spoken on the wire.

python dialects.py [ROUNDS]      the median of so many rounds, in each of which all dialects take their turn

An agent in a process of its own translates what it says, and the client translates it back.  Each round compares a
dialect with `v1` in the same round, so that a machine that is busy for a while slows both.
"""

import asyncio
import sys
import time
from statistics import median

from work import CHUNK

from dragoman import connect
from dragoman.dialects import NAMES

UPDATES = 50_000  # a prompt
REQUIRED = 1 / 3  # of the speed without a translator
AGENT = f"""
import sys
from dragoman import Agent, serve

class Talker(Agent):
    async def answer(self, turn):
        for _ in range(int(turn.text)):
            await turn.say({CHUNK!r})

serve(Talker, dialect=sys.argv[1])
"""


async def sample(dialect: str) -> float:
    """Updates a second, once both ends are warm."""
    async with connect([sys.executable, "-c", AGENT, dialect], dialect=dialect) as client:
        session = await client.new_session()
        await session.prompt("2000")
        start, heard = time.perf_counter(), 0
        async for _ in session.prompt(str(UPDATES)):
            heard += 1
        assert heard > UPDATES, "updates are missing"
        return UPDATES / (time.perf_counter() - start)


def main(rounds: int) -> None:
    rates: dict[str, list[float]] = {dialect: [] for dialect in NAMES}
    for _ in range(rounds):
        for dialect, found in rates.items():
            found.append(asyncio.run(sample(dialect)))
    for dialect, found in rates.items():
        shares = sorted(rate / plain for rate, plain in zip(found, rates["v1"], strict=True))
        slow = "" if median(shares) >= REQUIRED else "too slow"
        span = f"({shares[0]:.2f} to {shares[-1]:.2f})"
        print(f"{dialect:10} {median(found):9,.0f} /s  {median(shares):5.2f} of v1  {span} {slow}".rstrip())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
