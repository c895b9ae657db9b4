"""How a process leaves after a handover: turns run to their end, and idle clients move to the new process."""

import asyncio
import logging
from collections.abc import Callable

from ..gateway import Gateway

log = logging.getLogger("dragoman")

LOOK_EVERY = 0.05  # seconds between two checks for idle clients
REPLACED = 1012  # the WebSocket close code: service restart


async def leave(gateway: Gateway, send_away_quiet: Callable[[str, int], int]) -> None:
    """Disconnect each client when it is idle, so that it reconnects to the new process; returns when none is left.

    A client that returns continues in the new process, once the session's lease is released here.
    """
    gateway.is_leaving = True
    log.info("another process has taken over: turns that run are finished")
    try:
        async with asyncio.timeout(gateway.limits.turn_seconds):
            while send_away_quiet("another process has taken over", REPLACED) or gateway.live:
                for session in [session for session in gateway.live.values() if session.is_idle]:
                    gateway.let_go(session)
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        log.warning("turns that still run are ended: they had %g s", gateway.limits.turn_seconds)
