"""Compares our own ASGI server with others under the same endpoint: uvicorn, hypercorn, granian.

Throughput of one turn's updates, latency of empty prompts, memory of a connection, and how many of the 29 attacks
of tests/remote each server holds: others go on working beside it, memory stays bounded, and a flood is hung up on.
Servers take turns, sample by sample; the median is shown.  Needs `pip install granian`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from remote import WIRES, dial

from dragoman import connect
from dragoman import schema as s

TESTS = Path(__file__).parent.parent / "tests"
SERVERS = {"ours": WIRES, "uvicorn": WIRES[:2], "hypercorn": WIRES, "granian": WIRES}
CONNECTIONS = 200
PROMPTS = 300
LIMIT = 120.0  # seconds for one sample, after which the server has failed


@contextmanager
def serving(server: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own; gives its port and its process id."""
    argv = [sys.executable, str(TESTS / "remote" / "target.py"), server]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


async def throughput(server: str, wire: str, count: int) -> float:
    """Updates a second in one turn of so many."""
    with serving(server) as (port, _):
        async with connect(await dial(wire, port)) as client:
            session = await client.new_session("/")
            begun, seen = time.perf_counter(), 0
            async for event in session.prompt(f"flood {count}"):
                seen += isinstance(event, s.AgentMessageChunk)
            took = time.perf_counter() - begun
    if seen < count:
        raise SystemExit(f"{server} lost updates over {wire}: {seen} of {count} came")
    return seen / took


async def latency(server: str, wire: str, count: int) -> float:
    """Milliseconds of a prompt that is answered with a word, the median of so many."""
    with serving(server) as (port, _):
        async with connect(await dial(wire, port)) as client:
            session = await client.new_session("/")
            took = []
            for _ in range(count):
                begun = time.perf_counter()
                await session.prompt("echo x")
                took.append(time.perf_counter() - begun)
    return 1000 * statistics.median(took)


async def memory(server: str, wire: str, count: int) -> float:
    """KiB of the server's resident set for each of so many connections with a session."""
    with serving(server) as (port, pid):
        async with AsyncExitStack() as stack:
            for number in range(count + 10):
                if number == 10:  # the first ones load code
                    before = resident(pid)
                client = await stack.enter_async_context(connect(await dial(wire, port)))
                await client.new_session("/")
            return (resident(pid) - before) / count


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def attacks(server: str) -> tuple[int, list[str]]:
    """How many attacks a server holds, and the names of those it does not."""
    argv = [sys.executable, "-m", "remote.compared", server]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    told = subprocess.run(argv, cwd=TESTS, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout
    held: dict[str, bool] = json.loads(told)
    return sum(held.values()), [name for name, holds in held.items() if not holds]


MEASURES = (
    ("updates a second", throughput, 20_000, "{:,.0f}"),
    ("prompt, ms", latency, PROMPTS, "{:.2f}"),
    ("connection, KiB", memory, CONNECTIONS, "{:.0f}"),
)


async def _bounded(measurement: Awaitable[float]) -> float:
    async with asyncio.timeout(LIMIT):
        return await measurement


def measured(servers: Sequence[str], repeat: int, share: float) -> Iterator[str]:
    yield "| | " + " | ".join(servers) + " |"
    yield "| --- |" + " ---: |" * len(servers)
    for name, measure, size, shown in MEASURES:
        for wire in WIRES:
            samples: dict[str, list[float]] = {server: [] for server in servers if wire in SERVERS[server]}
            for turn in range(repeat):
                for server, figures in samples.items():
                    print(f"{name} {wire} {server} {turn + 1}/{repeat}", file=sys.stderr)
                    try:
                        figures.append(asyncio.run(_bounded(measure(server, wire, max(1, int(size * share))))))
                    except Exception as exc:
                        print(f"{server} fails: {exc!r}", file=sys.stderr)
            cells = [shown.format(statistics.median(samples[one])) if samples.get(one) else "-" for one in servers]
            yield f"| {name}, {wire} | {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/servers.py", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="samples of each [3]")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size of a sample [1]")
    parser.add_argument("--no-attacks", action="store_true", help="measure speed and memory alone")
    arguments = parser.parse_args()
    for line in measured(list(SERVERS), arguments.repeat, arguments.share):
        print(line, flush=True)
    if not arguments.no_attacks:
        for server in SERVERS:
            count, lost = attacks(server)
            print(f"{server} holds {count} attacks; not: {', '.join(lost) or 'none'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
