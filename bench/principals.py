"""One gateway for many: PRINCIPALS principals with EACH sessions each, agents in the gateway's process.

Prints what memory a session takes, and how long it takes to open, prompt, list and delete one:
`python bench/principals.py`.
The clients are another process on the same machine.  `--host DIR` is how it starts its other half.
"""

import argparse
import asyncio
import functools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from gateway import memory_of, processor_time

from dragoman import Agent, Client, Turn, connect
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.access.tokens import add_token
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serve

T = TypeVar("T")

PRINCIPALS = int(os.environ.get("PRINCIPALS", "500"))
EACH = int(os.environ.get("EACH", "10"))
TOGETHER = int(os.environ.get("TOGETHER", "50"))  # requests under way at a time


class Answering(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say("yes")


async def host(state: Path) -> None:
    limits = Limits(sessions=PRINCIPALS * EACH + 10, processes=PRINCIPALS + 10, connections=PRINCIPALS + 10)
    options = ServeOptions(
        agents={"answering": Hosted(target=Answering)}, state=state, limits=limits, tokens=state / "tokens.json"
    )
    await serve(options, lambda url: print(url, flush=True))


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
    shown = ", ".join(f"p{share} {took[int(len(took) * share / 100)]:.0f} ms" for share in (50, 99))
    print(f"  {name:8} {len(took)} in {time.monotonic() - began:.1f} s, {TOGETHER} at a time: {shown}", flush=True)
    return results


async def main(state: Path) -> None:
    names = [f"p{number}" for number in range(PRINCIPALS)]
    tokens = [add_token(state / "tokens.json", name, name) for name in names]
    began = time.monotonic()
    hosting = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--host", str(state), stdout=asyncio.subprocess.PIPE
    )
    assert hosting.stdout
    url = (await hosting.stdout.readline()).decode().strip()
    print(f"{PRINCIPALS * EACH} sessions of {PRINCIPALS} principals; start {time.monotonic() - began:.1f} s")
    empty = memory_of(hosting.pid)
    async with AsyncExitStack() as stack:

        async def dial(token: str) -> Client:
            headers = {"Authorization": f"Bearer {token}"}
            return await stack.enter_async_context(connect(url, headers=headers))

        clients = await timed("connect", [functools.partial(dial, token) for token in tokens])
        sessions = await timed("open", [functools.partial(one.new_session, state) for one in clients * EACH])
        memory = memory_of(hosting.pid)
        used = processor_time(hosting.pid)
        await timed("prompt", [functools.partial(one.prompt, "well?") for one in sessions])
        used = processor_time(hosting.pid) - used
        await timed("list", [one.list_sessions for one in clients])
        owned = zip(clients * EACH, sessions, strict=True)
        await timed("delete", [functools.partial(one.delete_session, of.id) for one, of in owned])
    print(f"  memory   {memory / 1024:.0f} MiB, {(memory - empty) / len(sessions):.0f} KiB a session")
    print(f"  processor {1000 * used / len(sessions):.2f} ms a prompt")
    hosting.terminate()
    await hosting.wait()


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
