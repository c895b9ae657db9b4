"""One gateway for many: PRINCIPALS principals with EACH sessions each, agents in the gateway's process.

Prints what memory a session takes, and how long it takes to open, prompt, list and delete one:
`python bench/principals.py`.
The clients are another process on the same machine.
"""

import asyncio
import functools
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from halves import other_half, run, share_of

from dragoman import Agent, Client, Turn, connect
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.access.tokens import add_token
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.operations.admin import AdminRequest, ask_admin
from dragoman.gateway.serving import ServeOptions

T = TypeVar("T")

PRINCIPALS = int(os.environ.get("PRINCIPALS", "500"))
EACH = int(os.environ.get("EACH", "10"))
TOGETHER = int(os.environ.get("TOGETHER", "50"))  # requests under way at a time


class Answering(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say("yes")


def host(state: Path) -> ServeOptions:
    limits = Limits(sessions=PRINCIPALS * EACH + 10, processes=PRINCIPALS + 10, connections=PRINCIPALS + 10)
    return ServeOptions(
        agents={"answering": Hosted(target=Answering)}, state=state, limits=limits, tokens=state / "tokens.json"
    )


def committing(state: Path) -> float:
    """The seconds that commits of the log have taken, the sync to the disk included."""
    lines = b"".join(ask_admin(state, AdminRequest("metrics"))).decode()
    found = re.search(r"^dragoman_log_commit_seconds_sum (\S+)", lines, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def timed(name: str, work: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Do it all, so many at a time; prints how long one took."""
    room, took = asyncio.Semaphore(TOGETHER), list[float]()

    async def one(do: Callable[[], Awaitable[T]]) -> T:
        async with room:
            began = time.monotonic()
            result = await do()
            took.append(1000 * (time.monotonic() - began))
            return result

    began = time.monotonic()
    results = await asyncio.gather(*map(one, work))
    took.sort()
    shown = ", ".join(f"p{share} {share_of(took, share):.0f} ms" for share in (50, 99))
    print(f"  {name:8} {len(took)} in {time.monotonic() - began:.1f} s, {TOGETHER} at a time: {shown}", flush=True)
    return results


async def measure(state: Path) -> None:
    names = [f"p{number}" for number in range(PRINCIPALS)]
    tokens = [add_token(state / "tokens.json", name, name) for name in names]
    async with other_half(state) as half, AsyncExitStack() as stack:
        print(f"{PRINCIPALS * EACH} sessions of {PRINCIPALS} principals; start {half.start:.1f} s")
        empty = half.memory()

        async def dial(token: str) -> Client:
            headers = {"Authorization": f"Bearer {token}"}
            return await stack.enter_async_context(connect(half.url, headers=headers))

        clients = await timed("connect", [functools.partial(dial, token) for token in tokens])
        sessions = await timed("open", [functools.partial(one.new_session, state) for one in clients * EACH])
        memory = half.memory()
        used, written, began = half.processor(), committing(state), time.monotonic()
        await timed("prompt", [functools.partial(one.prompt, "well?") for one in sessions])
        used, written, took = half.processor() - used, committing(state) - written, time.monotonic() - began
        await timed("list", [one.list_sessions for one in clients])
        owned = zip(clients * EACH, sessions, strict=True)
        await timed("delete", [functools.partial(one.delete_session, of.id) for one, of in owned])
    print(f"  memory   {memory / 1024:.0f} MiB, {(memory - empty) / len(sessions):.0f} KiB a session")
    print(f"  prompts  {1000 * used / len(sessions):.2f} ms of the processor, {100 * used / took:.0f} % of a core")
    print(f"           and {100 * written / took:.0f} % of the time in commits of the log")


if __name__ == "__main__":
    run(__doc__, host, measure)
