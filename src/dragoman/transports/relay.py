"""Two wires joined: what arrives on one is sent on the other, as it is."""

import asyncio
import contextlib
import logging

from ..framing import Oversize
from . import HIGH_WATER, Hear, Transport

log = logging.getLogger("dragoman")


async def relay(client: Transport, agent: Transport) -> Transport:
    """Join two wires until one of them ends; gives the one that did, and closes both."""
    ended: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
    flows: set[asyncio.Task[None]] = set()

    def over(wire: Transport) -> None:
        if not ended.done():
            ended.set_result(wire)

    def passing(source: Transport, sink: Transport) -> Hear:
        def hear(frames: list[bytes | Oversize]) -> None:
            whole = [frame for frame in frames if not isinstance(frame, Oversize)]
            if len(whole) < len(frames):
                log.warning("a message that is too long was left out")
            sink.send(whole)
            if sink.queued > HIGH_WATER:
                source.hold()
                flow = asyncio.create_task(_let_through(source, sink))
                flows.add(flow)
                flow.add_done_callback(flows.discard)

        return hear

    agent.listen(passing(agent, client), lambda: over(agent))
    client.listen(passing(client, agent), lambda: over(client))
    try:
        return await ended
    finally:
        for flow in list(flows):
            flow.cancel()
        for wire in (agent, client):
            await wire.close()


async def _let_through(source: Transport, sink: Transport) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await sink.drain()
    source.resume()
