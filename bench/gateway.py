"""A gateway under load: SESSIONS sessions of RATE updates a second each, over WebSocket, on this machine.

Prints how long an update takes from the agent's mouth to the client's ear, log included, and what a session costs
in memory.  The gateway and its agent share one process, the clients are another: `python bench/gateway.py`.
The sizes are variables of the environment; `--host DIR` is how it starts its other half.
"""

import argparse
import asyncio
import os
import re
import resource
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from dragoman import Agent, Client, Turn, connect
from dragoman import schema as s
from dragoman.foundation.directories import LOCAL_TOKEN
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serve

SESSIONS = int(os.environ.get("SESSIONS", "1000"))
RATE = float(os.environ.get("RATE", "2"))
SECONDS = float(os.environ.get("SECONDS", "20"))
CONNECTIONS = int(os.environ.get("CONNECTIONS", "100"))


class Ticker(Agent):
    """Says what time it is, again and again."""

    async def answer(self, turn: Turn) -> None:
        ends = time.monotonic() + float(turn.text)
        await asyncio.sleep(hash(turn.session.id) % 1000 / 1000 / RATE)  # not all at once
        while time.monotonic() < ends:
            await turn.say(f"{time.monotonic():.6f} ")
            await asyncio.sleep(1 / RATE)


class Listener(Client):
    """Notes how old each update is when it arrives."""

    def __init__(self, ages: list[float]) -> None:
        super().__init__()
        self._ages = ages

    def update(self, params: s.SessionNotification) -> None:
        if isinstance(params.update, s.AgentMessageChunk) and isinstance(params.update.content, s.TextContent):
            self._ages.append(time.monotonic() - float(params.update.content.text))
        super().update(params)


async def host(state: Path) -> None:
    limits = Limits(connections_each=CONNECTIONS + 10, sessions_each=SESSIONS + 10)
    order = ServeOptions(agents={"ticker": Hosted(target=Ticker)}, state=state, limits=limits)
    await serve(order, lambda url: print(url, flush=True))


def memory_of(pid: int) -> int:
    """The resident memory of a process, in KiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def processor_time(pid: int) -> float:
    """The seconds of the processor that a process has used."""
    used = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


async def main(state: Path) -> None:
    hosting = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--host", str(state), stdout=asyncio.subprocess.PIPE
    )
    assert hosting.stdout
    url = (await hosting.stdout.readline()).decode().strip()
    headers = {"Authorization": f"Bearer {(state / LOCAL_TOKEN).read_text()}"}
    ages: list[float] = []
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(url, Listener(ages), headers=headers))
            for _ in range(CONNECTIONS)
        ]
        before = memory_of(hosting.pid)
        began = time.monotonic()
        sessions = [await clients[number % CONNECTIONS].new_session(state) for number in range(SESSIONS)]
        opening = (time.monotonic() - began) / SESSIONS
        used = processor_time(hosting.pid)
        await asyncio.gather(*(_listen(session, SECONDS) for session in sessions))
        used = processor_time(hosting.pid) - used
        after = memory_of(hosting.pid)
    began = time.monotonic()
    hosting.terminate()
    await hosting.wait()
    stopping = time.monotonic() - began
    ages.sort()
    shown = {f"p{share:g}": 1000 * ages[int(len(ages) * share / 100)] for share in (50, 99, 99.9)}
    print(f"{SESSIONS} sessions, {len(ages)} updates in {SECONDS:g} s ({len(ages) / SECONDS:.0f} a second)")
    print("  latency: " + ", ".join(f"{name} {figure:.1f} ms" for name, figure in shown.items()))
    print(f"  processor: {1000 * used / len(ages):.3f} ms an update, {used:.1f} s in all")
    print(f"  opening: {1000 * opening:.1f} ms a session, one after the other; stopping: {stopping:.1f} s")
    print(f"  memory:  {(after - before) / SESSIONS:.1f} KiB a session, agent's share included")


async def _listen(session: object, seconds: float) -> None:
    await session.prompt(f"{seconds:g}")  # type: ignore[attr-defined]


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    if directory := parser.parse_args().host:
        asyncio.run(host(directory))
    else:
        with tempfile.TemporaryDirectory() as state:
            asyncio.run(main(Path(state)))
