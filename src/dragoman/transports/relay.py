"""Join two transports: frames that arrive on one are sent on the other, unchanged."""

import asyncio
import logging

import msgspec

from ..envelope import outline
from ..framing import Oversize
from . import HIGH_WATER, Hear, Transport
from .holding import HeldUntilRoom
from .remote.routing import failure
from .translating import answer_too_large

log = logging.getLogger("dragoman")


async def relay(client: Transport, agent: Transport) -> Transport:
    """Join two transports until one of them ends; closes both and returns the one that ended first."""
    ended: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()

    def over(wire: Transport) -> None:
        if not ended.done():
            ended.set_result(wire)

    def passing(source: Transport, sink: Transport) -> Hear:
        held = HeldUntilRoom(source.hold, source.resume, sink.drain)

        def hear(frames: list[bytes | Oversize]) -> None:
            whole: list[bytes] = []
            for frame in frames:
                if not isinstance(frame, Oversize):
                    whole.append(frame)
                elif (answer := answer_too_large(frame)) is not None:
                    whole.append(msgspec.json.encode(answer))
                elif (refusal := _refusal(frame)) is not None:
                    source.send([refusal])
                else:
                    log.warning("a message of %d bytes is too large and was left out", frame.size)
            sink.send(whole)
            if sink.queued > HIGH_WATER:
                held.begin()

        return hear

    agent.listen(passing(agent, client), lambda: over(agent))
    client.listen(passing(client, agent), lambda: over(client))
    try:
        return await ended
    finally:
        for wire in (agent, client):
            await wire.close()


def _refusal(frame: Oversize) -> bytes | None:
    """The answer to a request that is too large to be passed on; None for other messages."""
    seen = outline(frame)
    if type(seen.get("id")) not in (int, str) or not ("method" in seen or "params" in seen):
        return None
    return failure(msgspec.json.encode(seen["id"]), -32600, f"a message of {frame.size} bytes is too large")
