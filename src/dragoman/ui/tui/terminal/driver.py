"""The toolkit's terminal driver, changed for terminals that go away or that change their size often."""

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

SETTLED = 0.1  # seconds after a change of size in which another one may follow


class TerminalDriver(LinuxDriver):
    """Writes while the writer thread runs; the toolkit's own driver waits forever for a thread that has failed."""

    def check_size(self) -> None:
        """Report the terminal's size again if the program has another one.

        A handler of a signal can interrupt the one before, which then continues and reports the older size last.
        """
        size = Size(*self._get_terminal_size())
        if size != self._app.size:
            self._app.post_message(events.Resize(size, size))

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if writer is None or writer.is_alive():
            super().write(data)
