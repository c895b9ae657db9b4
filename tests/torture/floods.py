"""T15, T16: more than anybody reads; and what has to get through all the same."""

import asyncio
import fcntl
import gc
import os
import sys
import time
from typing import Any

from dragoman import Session, connect
from dragoman import schema as s
from dragoman.connection.connection import Connection
from dragoman.events import Method

from .by_hand import opened, resident

# Streams as many numbered chunks as it is asked for; anything else it answers at once.
FLOODING = """
from dragoman import Agent, serve

class Flooding(Agent):
    async def answer(self, turn):
        if turn.text.startswith("flood"):
            for number in range(int(turn.text.split()[1])):
                await turn.say(str(number))
        else:
            await turn.say(turn.text)

serve(Flooding)
"""
AGENT = [sys.executable, "-c", FLOODING]


async def unread(count: int, *, pause: float = 0.0) -> dict[str, float]:
    """Have so many updates sent while nobody reads them; another session goes on; then read them all."""
    async with connect(AGENT) as client:
        flooded, other = await client.new_session(), await client.new_session()
        alone = await _median_round_trip(other, 20)
        gc.collect()
        before = resident()
        prompt = flooded.prompt(f"flood {count}")
        stopped, meanwhile, most = time.monotonic() + pause, [], 0
        while not prompt._turn.reply or time.monotonic() < stopped:
            meanwhile.append(await _round_trip(other))
            most = max(most, resident() - before)
        wrong, read = 0, 0
        async for event in prompt:
            if isinstance(event, s.AgentMessageChunk):
                wrong += event.content.text != str(read)
                read += 1
                most = max(most, resident() - before) if read % 1000 == 0 else most
        return {
            "read": read,
            "out of order": wrong,
            "memory": most,
            "round trips meanwhile": len(meanwhile),
            "alone": alone,
            "meanwhile": _percentile(meanwhile, 0.5),
            "p99": _percentile(meanwhile, 0.99),
        }


async def held_back(count: int) -> dict[str, float]:
    """The same with no room on disk either: the agent has to wait, and nothing is lost."""
    async with connect(AGENT) as client:
        held = asyncio.Event()
        hold = client.connection.hold

        def hold_and_tell() -> None:
            hold()
            held.set()

        client.connection.hold = hold_and_tell  # type: ignore[method-assign]
        session = await client.new_session()
        prompt = session.prompt(f"flood {count}")
        async with asyncio.timeout(30):
            await held.wait()
        await asyncio.sleep(0.2)  # for what must not come
        waiting, is_over = _spooled(session), prompt._turn.reply is not None
        texts = [event.content.text async for event in prompt if isinstance(event, s.AgentMessageChunk)]
        return {"waiting": waiting, "is over": is_over, "all there": texts == [str(n) for n in range(count)]}


def _spooled(session: Session) -> int:
    """Bytes of a session's updates that lie on disk."""
    return session._inbox.spooled


async def cancel_in_flood(count: int, times: int) -> dict[str, Any]:
    """Cancel a flood, and prompt another session, while it is on; gives how long both took to be acknowledged."""
    cancels, prompts, cut_short = [], [], 0
    async with connect(AGENT) as client:
        other = await client.new_session()
        for _ in range(times):
            flooded = await client.new_session()
            prompt = flooded.prompt(f"flood {count}")
            await anext(prompt)
            prompts.append(await _round_trip(other))
            started = time.monotonic()
            flooded.cancel()
            async with asyncio.timeout(30):
                response = await prompt
            cancels.append(time.monotonic() - started)
            cut_short += response.stop_reason == "cancelled"
            await flooded.close()
    return {
        "cut short": cut_short,
        "cancel p99": _percentile(cancels, 0.99),
        "prompt p99": _percentile(prompts, 0.99),
    }


async def both_at_once(count: int) -> dict[str, float]:
    """Two sides that ask each other so many things at once, over narrow pipes."""
    (left_in, right_out), (right_in, left_out) = os.pipe(), os.pipe()
    for fd in (right_out, left_out):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
    ends = [Connection(await opened(left_in, left_out)), Connection(await opened(right_in, right_out))]
    ask = Method("ask", Any, Any)

    async def answer(params: Any) -> Any:
        await asyncio.sleep(0)
        return params

    handled = Method("ask", Any, Any, handler=answer)
    for end in ends:
        end.answer_with({"ask": handled}, {})
    running = [asyncio.create_task(end.run()) for end in ends]
    started = time.monotonic()
    text = "x" * 200
    answers = await asyncio.gather(
        *(end.call(ask, {"number": n, "text": text}) for n in range(count) for end in ends), return_exceptions=True
    )
    took = time.monotonic() - started
    expected = [n for n in range(count) for _ in ends]
    right = sum(isinstance(a, dict) and a["number"] == n for a, n in zip(answers, expected, strict=True))
    running[0].cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return {"answered": right, "seconds": took}


async def _round_trip(session: Session) -> float:
    started = time.monotonic()
    await session.prompt("hello")
    return time.monotonic() - started


async def _median_round_trip(session: Session, count: int) -> float:
    return _percentile([await _round_trip(session) for _ in range(count)], 0.5)


def _percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)] if times else 0.0
