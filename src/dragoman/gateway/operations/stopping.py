"""Handles SIGTERM and SIGINT: the first signal drains the gateway, the second ends it at once."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable

log = logging.getLogger("dragoman")


def heed_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at the first signal; at the second, end the process together with its agents.

    Nothing is lost: the next start finds the running turns in the log, and reports them as interrupted.
    """
    heard: list[int] = []

    def on_signal(number: int) -> None:
        heard.append(number)
        if len(heard) == 1:
            stop()
        else:
            log.warning("told to stop again: the gateway ends at once")
            os._exit(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
