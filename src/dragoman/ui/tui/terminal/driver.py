"""The toolkit's terminal driver, changed so that it does not block after the terminal is gone."""

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Writes while the writer thread runs; the toolkit's own driver waits forever for a thread that has failed."""

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if writer is None or writer.is_alive():
            super().write(data)
