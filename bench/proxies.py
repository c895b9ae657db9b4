"""What a proxy costs: streamed updates a second through none, one and two of them, by the clock.

python proxies.py [ROUNDS]      the median of so many rounds, in each of which all chains take their turn

The agent is a process of its own; the proxies are in the client's process and look at nothing.  Each round compares
a chain with the direct connection of the same round, so that a machine that is busy for a while slows both.
"""

import asyncio
import sys
import time
from statistics import median
from typing import Any

from ours import AGENT
from work import say

from dragoman import Proxy, compose, connect

UPDATES = 50_000  # a prompt
REQUIRED = (1.0, 2.0, 3.0)  # times the direct connection at most, by the number of proxies


class Passing(Proxy):
    """Passes everything on."""


async def sample(proxies: int) -> float:
    """Seconds an update, once everybody is warm."""
    target: Any = [sys.executable, str(AGENT)]
    async with connect(compose(*[Passing] * proxies, target) if proxies else target) as client:
        session = await client.new_session()
        await session.prompt(say(2000))
        start, heard = time.perf_counter(), 0
        async for _ in session.prompt(say(UPDATES)):
            heard += 1
        assert heard > UPDATES, "updates are missing"
        return (time.perf_counter() - start) / UPDATES


def main(rounds: int) -> None:
    times: list[list[float]] = [[] for _ in REQUIRED]
    for _ in range(rounds):
        for proxies, found in enumerate(times):
            found.append(asyncio.run(sample(proxies)))
    for proxies, found in enumerate(times):
        costs = sorted(own / direct for own, direct in zip(found, times[0], strict=True))
        dear = "" if median(costs) <= REQUIRED[proxies] else "too dear"
        span = f"({costs[0]:.2f} to {costs[-1]:.2f})"
        print(
            f"{proxies} proxies {1 / median(found):9,.0f} /s  {median(costs):5.2f} x direct  {span} {dear}".rstrip()
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
