"""The scenarios: each is written once, runs against any contender, and gives figures by name.

Run as a program it takes one sample in a process of its own, which holds nothing of the other contenders:

    python scenarios.py CONTENDER SCENARIO SIZE     prints the figures as one JSON object
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from work import LARGE, SMALL, read, say

SPELLINGS = ("compact", "spaced", "reordered", "escaped")
SPELLING_AGENT = Path(__file__).with_name("spelling_agent.py")
CHUNKS_PER_PROMPT = 5
SESSIONS_BEFORE = 50  # what the first sessions cost is no session's own

Figures = dict[str, float]


class Link(Protocol):
    """A client that has shaken hands with an agent in another process."""

    async def new_session(self) -> Any: ...
    async def prompt(self, session: Any, text: str) -> int: ...


class Contender(Protocol):
    """What each contender's module offers: the import its users write, and a way to start an agent."""

    IMPORT: str

    def start(self, *agent: str) -> AbstractAsyncContextManager[Link]: ...


async def importing(contender: Contender, size: int) -> Figures:
    """The import that a program with an agent and a client begins with, in fresh interpreters."""
    code = f"""
import time
start = time.perf_counter()
{contender.IMPORT}
seconds = time.perf_counter() - start
rollup = open("/proc/self/smaps_rollup").read()
print(seconds, rollup.partition("Rss:")[2].split()[0])
"""
    samples = [_run(code) for _ in range(size)]
    return {
        "import": statistics.median(float(seconds) for seconds, _ in samples),
        "memory.import": statistics.median(int(kibibytes) * 1024 for _, kibibytes in samples),
    }


async def starting(contender: Contender, size: int) -> Figures:
    """From before the agent's process is started until its answer to `initialize` is there."""
    samples = []
    for _ in range(size):
        before = time.perf_counter()
        async with contender.start():
            samples.append(time.perf_counter() - before)
    return {"start": statistics.median(samples)}


async def prompting(contender: Contender, size: int) -> Figures:
    """One prompt after the other, each answered at once."""
    async with contender.start() as link:
        session = await link.new_session()

        async def prompts(count: int) -> None:
            for _ in range(count):
                _expect(await link.prompt(session, say(0)), 0)

        await prompts(size // 10)
        return {"round_trips.prompt": size / await _timed(prompts(size))}


async def reading_small(contender: Contender, size: int) -> Figures:
    """One small file after the other, read by the agent within one turn."""
    async with contender.start() as link:
        session = await link.new_session()
        await link.prompt(session, read(SMALL, size // 10))
        return {"round_trips.read": size / await _timed(link.prompt(session, read(SMALL, size)))}


async def reading_large(contender: Contender, size: int) -> Figures:
    """A file of 1 MiB, read by the agent again and again within one turn."""
    async with contender.start() as link:
        session = await link.new_session()
        await link.prompt(session, read(LARGE, 2))
        return {"files": size / await _timed(link.prompt(session, read(LARGE, size)))}


async def streaming(contender: Contender, size: int) -> Figures:
    """One turn of very many chunks, every one of which arrives."""
    async with contender.start() as link:
        session = await link.new_session()
        await link.prompt(session, say(size // 20))

        async def turn() -> None:
            _expect(await link.prompt(session, say(size)), size)

        return {"streaming": size / await _timed(turn())}


async def spelling(contender: Contender, size: int) -> Figures:
    """The same from an agent that writes its updates in one of several ways, and has nothing else to do."""
    figures = {}
    for spelling in SPELLINGS:
        async with contender.start(str(SPELLING_AGENT), spelling) as link:
            session = await link.new_session()
            await link.prompt(session, say(size // 20))

            async def turn(link: Link = link, session: Any = session) -> None:
                _expect(await link.prompt(session, say(size)), size)

            figures[f"streaming.{spelling}"] = size / await _timed(turn())
    return figures


async def in_flight(contender: Contender, size: int) -> Figures:
    """As many prompts at once as there are sessions, each with a few chunks; several rounds of them."""
    figures = {}
    async with contender.start() as link:
        sessions = [await link.new_session() for _ in range(1000)]
        for width in (1, 100, 1000):
            rounds = max(1, size // width)

            async def together(width: int = width, rounds: int = rounds) -> None:
                for _ in range(rounds):
                    turns = (link.prompt(session, say(CHUNKS_PER_PROMPT)) for session in sessions[:width])
                    for updates in await asyncio.gather(*turns):
                        _expect(updates, CHUNKS_PER_PROMPT)

            await together(rounds=max(1, rounds // 10))
            figures[f"in_flight.{width}"] = width * rounds / await _timed(together())
    return figures


async def holding(contender: Contender, size: int) -> Figures:
    """How resident memory grows: by a connection in the client, by a session in either process."""
    async with AsyncExitStack() as stack:
        link = await stack.enter_async_context(contender.start())
        (agent,) = children()
        figures = {"memory.agent": resident(agent)}
        for _ in range(SESSIONS_BEFORE):
            await link.new_session()
        client_before, agent_before = resident(os.getpid()), resident(agent)
        sessions = [await link.new_session() for _ in range(size)]
        figures["memory.session.client"] = (resident(os.getpid()) - client_before) / len(sessions)
        figures["memory.session.agent"] = (resident(agent) - agent_before) / len(sessions)
        connections = size // 50
        before = resident(os.getpid())
        for _ in range(connections):
            await stack.enter_async_context(contender.start())
        figures["memory.connection"] = (resident(os.getpid()) - before) / connections
        return figures


SCENARIOS: dict[str, Callable[[Contender, int], Coroutine[Any, Any, Figures]]] = {
    "import": importing,
    "start": starting,
    "prompts": prompting,
    "reads": reading_small,
    "streaming": streaming,
    "spelling": spelling,
    "files": reading_large,
    "in_flight": in_flight,
    "memory": holding,
}


def _run(code: str) -> list[bytes]:
    return subprocess.check_output([sys.executable, "-c", code]).split()


async def _timed(work: Coroutine[Any, Any, Any]) -> float:
    before = time.perf_counter()
    await work
    return time.perf_counter() - before


def _expect(updates: int, expected: int) -> None:
    if updates != expected:
        raise ValueError(f"{updates} updates arrived, not {expected}")


def resident(pid: int) -> float:
    """A process's resident memory in bytes, counted page by page: the counters in `status` lag behind."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("Rss:")[2].split()[0]) * 1024


def children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def main(contender: str, scenario: str, size: str) -> None:
    module: Any = import_module(contender)
    print(json.dumps(asyncio.run(SCENARIOS[scenario](module, int(size)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
