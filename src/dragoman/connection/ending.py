"""The end of a connection: its reason, and the end of the requests that are still being answered."""

import asyncio
import logging

from ..errors import ConnectionClosed
from ..transports import Transport

log = logging.getLogger("dragoman")

GRACE = 0.5  # seconds to finish answers after the peer hung up
PATIENCE = 5.0  # seconds for cancelled handlers to end


async def why_ended(transport: Transport) -> Exception:
    """The error that calls fail with once the peer has hung up."""
    try:
        return await transport.why_ended()
    except Exception as exc:
        log.exception("a transport does not know why it ended")
        return ConnectionClosed(f"the transport failed: {exc}")


async def end_tasks(tasks: set[asyncio.Task[None]], grace: float) -> None:
    """Give the tasks that answer requests some time, then cancel them; log those that do not end."""
    if not tasks:
        return
    await asyncio.wait(tasks, timeout=grace)
    for task in tasks:
        task.cancel()
    _, stuck = await asyncio.wait(tasks, timeout=PATIENCE)
    for task in stuck:
        log.warning("the handler of %s does not end", task.get_name())
