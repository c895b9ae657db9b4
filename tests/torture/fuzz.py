"""T01: frames nobody should send, into both roles through a real connection, with a ping now and then."""

import gc
from contextlib import AsyncExitStack

from dragoman import Client
from dragoman.framing import MAX_FRAME

from .by_hand import Hand, facing_agent, facing_client, resident
from .hostile import frames

BETWEEN_PINGS = 1000


async def fuzz(role: str, wire: str, *, count: int, seed: int, limit: int = MAX_FRAME) -> dict[str, float]:
    """Send `count` frames to an agent or a client and see that it still answers; gives what it cost."""
    print(f"fuzz {role} over {wire}: {count} frames, seed {seed}")
    sent, memory = 0, 0
    async with AsyncExitStack() as stack:
        client, hand = await _facing(role, wire, limit, stack)
        batch: list[bytes] = []
        for frame in frames(seed, count):
            batch.append(frame)
            if len(batch) == BETWEEN_PINGS:
                await _deliver(hand, client, batch)
                sent += len(batch)
                batch = []
                memory = memory or _settled()  # once everything has been used once
        await _deliver(hand, client, batch)
        return {"frames": sent + len(batch), "grown": _settled() - memory if memory else 0}


async def _facing(role: str, wire: str, limit: int, stack: AsyncExitStack) -> tuple[Client | None, Hand]:
    if role == "agent":
        return None, await stack.enter_async_context(facing_agent(wire=wire, limit=limit))
    return await stack.enter_async_context(facing_client(wire=wire, limit=limit))


async def _deliver(hand: Hand, client: Client | None, batch: list[bytes]) -> None:
    hand.send(*batch)
    await hand.ping()
    if client:
        for _ in client.session("s1").backlog():  # somebody reads what was an update after all
            pass


def _settled() -> int:
    gc.collect()
    return resident()
