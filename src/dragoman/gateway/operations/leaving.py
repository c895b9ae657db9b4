"""How a process leaves to the one that has taken over: turns run to their end, and clients go over in between."""

import asyncio
import logging
from collections.abc import Callable

from ..gateway import Gateway

log = logging.getLogger("dragoman")

LOOK_EVERY = 0.05  # seconds between two looks at who can go
REPLACED = 1012  # the code a WebSocket is closed with: the service restarts


async def leave(gateway: Gateway, send_away_quiet: Callable[[str, int], int]) -> None:
    """Send clients over to the new process, each when nothing of it runs; returns when nobody is left.

    A client that comes back goes on in the new process, once the session's lease is given up here.
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
