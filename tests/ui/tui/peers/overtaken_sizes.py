"""The screen in a process that, at SIGUSR1, is told an old size of its terminal, as if a newer one overtook it."""

import asyncio
import signal
import sys

from textual import events
from textual.geometry import Size

from dragoman.__main__ import main
from dragoman.ui.tui.terminal.driver import TerminalDriver

OLD = Size(120, 6)
start = TerminalDriver.start_application_mode


def start_and_listen(driver: TerminalDriver) -> None:
    start(driver)
    told = events.Resize(OLD, OLD)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: driver._app.post_message(told))


TerminalDriver.start_application_mode = start_and_listen  # type: ignore[method-assign]
sys.exit(main())
