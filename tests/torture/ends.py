"""T19: one half of a wire closes, at any moment of a conversation."""

import asyncio
import contextlib
import os
import random
import socket
import stat
import time
from typing import Any

import msgspec

from dragoman import extension, serve_on
from dragoman.framing import join_lines

from .by_hand import INITIALIZE, Ponging, opened, request

AT_ONCE = 20


class Slow(Ponging):
    """Takes its time to answer."""

    @extension("_slow")
    async def slow(self, params: Any) -> Any:
        await asyncio.sleep(params["seconds"])
        return {"slept": True}

    @extension("_never")
    async def never(self, params: Any) -> Any:
        await asyncio.Event().wait()


async def half_close(count: int, seed: int) -> dict[str, float]:
    """Close the reading or the writing half of so many wires, each after another number of bytes."""
    slowest, cpu = 0.0, time.process_time()
    for start in range(0, count, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, count))
        closing = [_close_one(random.Random(seed * 1_000_000 + number)) for number in numbers]
        slowest = max(slowest, *await asyncio.gather(*closing))
    return {"closed": count, "slowest": slowest, "cpu": (time.process_time() - cpu) / count}


async def _close_one(dice: random.Random) -> float:
    """How long the agent took to notice that half of its wire is gone."""
    ends, ours_in, ours_out = pipes() if dice.random() < 0.5 else sockets()
    serving = asyncio.create_task(serve_on(Slow, await opened(*ends)))
    texts = ["x" * dice.randrange(5000) for _ in range(20)]
    asked = [request(n, dice.choice(["_ping", "_echo", "_never"]), {"text": text}) for n, text in enumerate(texts)]
    data = join_lines(map(msgspec.json.encode, [request("first", "initialize", INITIALIZE), *asked]))
    os.write(ours_out, data[: dice.randrange(60_000)])
    await asyncio.sleep(dice.random() * 0.01)
    started = time.monotonic()
    halves = [ours_in, ours_out]
    if is_socket(ours_out) or dice.random() < 0.5:  # half a socket that is not read looks like a slow reader
        halves.reverse()
    shut(halves[0])
    try:
        async with asyncio.timeout(5):
            await serving
    finally:
        shut(halves[1])
    return time.monotonic() - started


def pipes() -> tuple[tuple[int, int], int, int]:
    """Two pipes: what the other side reads and writes, then what we do."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    return (theirs_in, theirs_out), ours_in, ours_out


def sockets() -> tuple[tuple[int, int], int, int]:
    """One socket both ways, in the same order."""
    ours, theirs = (end.detach() for end in socket.socketpair())
    return (theirs, os.dup(theirs)), ours, os.dup(ours)


def is_socket(fd: int) -> bool:
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def shut(fd: int) -> None:
    """Close one half; the writing half of a socket has to be told that it is one."""
    if is_socket(fd):
        with socket.socket(fileno=fd) as end, contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_WR)
    else:
        os.close(fd)
