"""The toolkit's way to the terminal, which holds nobody up once the terminal is gone."""

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Writes as long as somebody takes it; the toolkit's own waits for ever for a thread that has failed."""

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if writer is None or writer.is_alive():
            super().write(data)
