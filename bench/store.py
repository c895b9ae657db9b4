"""Measures what durable sessions cost: the same work without a store and with one, at either level.

    python bench/store.py                streamed updates and prompts, ratio to no store
    python bench/store.py --updates N    and a session of N updates: how fast it is listed and loaded

The levels take turns, sample by sample; the median is shown.  Client and agent are processes of their own.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ours import Link
from scenarios import children, resident
from work import say

from dragoman import Client, connect

AGENT = Path(__file__).with_name("store_agent.py")
LEVELS = ("none", "process", "power")
CROWD = 25  # sessions that prompt at the same time, and share their commits
BATCH = 100_000  # updates in one turn of a long session


class Counting(Client):
    """A client that counts updates instead of keeping them."""

    updates = 0

    def update(self, params: object) -> None:
        self.updates += 1


@asynccontextmanager
async def started(level: str, path: str) -> AsyncIterator[Counting]:
    async with connect([sys.executable, str(AGENT), level, path], Counting()) as client:
        yield client


async def sample(level: str, streamed: int, prompts: int) -> dict[str, float]:
    """Updates and prompts a second, in a store of its own."""
    with tempfile.TemporaryDirectory() as path:
        async with connect([sys.executable, str(AGENT), level, path]) as client:
            link = Link(client)
            session = await link.new_session()
            await link.prompt(session, say(streamed // 20))
            before = time.perf_counter()
            await link.prompt(session, say(streamed))
            streaming = streamed / (time.perf_counter() - before)
            before = time.perf_counter()
            for _ in range(prompts):
                await link.prompt(session, say(0))
            one = prompts / (time.perf_counter() - before)
            sessions = [await link.new_session() for _ in range(CROWD)]
            before = time.perf_counter()
            for _ in range(prompts // CROWD):
                await asyncio.gather(*(link.prompt(session, say(0)) for session in sessions))
            many = prompts / (time.perf_counter() - before)
            return {"streamed updates": streaming, "prompts": one, f"prompts, {CROWD} at once": many}


async def long_session(updates: int) -> dict[str, float]:
    """A session of so many updates: listing it, loading it, and what the agent's memory grows to meanwhile."""
    with tempfile.TemporaryDirectory() as path:
        async with started("process", path) as client:
            session = await client.new_session()
            for said in range(0, updates, BATCH):
                await session.prompt(say(min(BATCH, updates - said)))
        async with started("process", path) as client:
            (agent,) = children()
            before = time.perf_counter()
            await client.list_sessions()
            listed = time.perf_counter() - before
            small, largest = resident(agent), 0.0
            loading = asyncio.create_task(client.load_session(session.id))
            before = time.perf_counter()
            while not loading.done():
                await asyncio.wait([loading], timeout=0.2)
                largest = max(largest, resident(agent))
            loaded = time.perf_counter() - before
            size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
            return {
                "list, ms": listed * 1e3,
                "load, updates/s": client.updates / loaded,
                "agent's memory before, MiB": small / 2**20,
                "agent's memory at most, MiB": largest / 2**20,
                "store, bytes an update": size / updates,
            }


def compare(streamed: int, prompts: int, repeat: int) -> None:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(repeat):
        print(f"{turn + 1}/{repeat}", file=sys.stderr)
        for level in LEVELS:
            for name, figure in asyncio.run(sample(level, streamed, prompts)).items():
                found[name][level].append(figure)
    print(f"| {'':18} | {'no store':>11} | {'process':>11} |    x | {'power':>11} |    x |")
    print("| ------------------ | ----------: | ----------: | ---: | ----------: | ---: |")
    for name, by_level in found.items():
        none, process, power = (statistics.median(by_level[level]) for level in LEVELS)
        stored = " | ".join(f"{rate:9,.0f} /s | {rate / none:4.2f}" for rate in (process, power))
        print(f"| {name:18} | {none:9,.0f} /s | {stored} |")
    none, process = (statistics.median(found["streamed updates"][level]) for level in LEVELS[:2])
    print(f"\nThe store costs {(1 / process - 1 / none) * 1e6:.1f} µs an update.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/store.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little work and one sample: does everything run?")
    parser.add_argument("--updates", type=int, default=0, metavar="N", help="also load a session of so many")
    arguments = parser.parse_args()
    if arguments.quick:
        compare(5000, 50, 1)
    else:
        compare(100_000, 1000, 5)
    if arguments.updates:
        for name, figure in asyncio.run(long_session(arguments.updates)).items():
            print(f"{name}: {figure:,.1f}")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
