"""Tells a supervisor such as systemd (`Type=notify`) that the gateway is ready, stops, or is alive.

It sends datagrams to the socket in `NOTIFY_SOCKET`; without that variable, it does nothing.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping

from ..workers import owned


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send the supervisor a message such as READY=1; failures are ignored."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        wire.setblocking(False)
        wire.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


@contextlib.asynccontextmanager
async def supervised() -> AsyncIterator[None]:
    """Report that the gateway is ready, and then regularly that its event loop runs."""
    notify("READY=1")
    watchdog = owned(_say_alive(), "watchdog", lambda exc: None)  # if it dies, the supervisor notices
    try:
        yield
    finally:
        notify("STOPPING=1")
        watchdog.cancel()
        await asyncio.wait([watchdog])


async def _say_alive(environ: Mapping[str, str] = os.environ) -> None:
    wanted = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    while wanted.isdecimal() and int(wanted) > 0 and is_ours:
        notify("WATCHDOG=1")
        await asyncio.sleep(int(wanted) / 2_000_000)
