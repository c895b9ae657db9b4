"""A gateway under load: SESSIONS sessions of RATE updates a second each, over WebSocket, on this machine.

Prints how long an update takes from the agent's mouth to the client's ear, log included, and what a session costs
in memory.  The gateway and its agent share one process, the clients are another: `python bench/gateway.py`.
The sizes are variables of the environment.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

from halves import other_half, run, share_of

from dragoman import Agent, Client, Turn, connect
from dragoman import schema as s
from dragoman.foundation.directories import LOCAL_TOKEN
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions

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


def host(state: Path) -> ServeOptions:
    limits = Limits(connections_each=CONNECTIONS + 10, sessions_each=SESSIONS + 10)
    return ServeOptions(agents={"ticker": Hosted(target=Ticker)}, state=state, limits=limits)


async def measure(state: Path) -> None:
    ages: list[float] = []
    async with other_half(state) as half:
        headers = {"Authorization": f"Bearer {(state / LOCAL_TOKEN).read_text()}"}
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connect(half.url, Listener(ages), headers=headers))
                for _ in range(CONNECTIONS)
            ]
            before = half.memory()
            began = time.monotonic()
            sessions = [await clients[number % CONNECTIONS].new_session(state) for number in range(SESSIONS)]
            opening = (time.monotonic() - began) / SESSIONS
            used = half.processor()
            await asyncio.gather(*(_listen(session, SECONDS) for session in sessions))
            used = half.processor() - used
            after = half.memory()
        stopping = await half.stop()
    ages.sort()
    shown = ", ".join(f"p{share:g} {1000 * share_of(ages, share):.1f} ms" for share in (50, 99, 99.9))
    print(f"{SESSIONS} sessions, {len(ages)} updates in {SECONDS:g} s ({len(ages) / SECONDS:.0f} a second)")
    print(f"  latency: {shown}")
    print(f"  processor: {1000 * used / len(ages):.3f} ms an update, {used:.1f} s in all")
    print(f"  opening: {1000 * opening:.1f} ms a session, one after the other; stopping: {stopping:.1f} s")
    print(f"  memory:  {(after - before) / SESSIONS:.1f} KiB a session, agent's share included")


async def _listen(session: object, seconds: float) -> None:
    await session.prompt(f"{seconds:g}")  # type: ignore[attr-defined]


if __name__ == "__main__":
    run(__doc__, host, measure)
