"""A handle for the process of an agent."""

import signal as signals

from ...transports.process import ProcessTransport


class AgentProcess:
    """The agent's process: its state, the end of its stderr, and signals for a process that hangs."""

    def __init__(self, wire: ProcessTransport) -> None:
        self._wire = wire

    @property
    def pid(self) -> int:
        """The process id."""
        return self._wire.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._wire.status is None

    @property
    def exit_status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wire.status

    @property
    def stderr(self) -> str:
        """The end of its stderr output."""
        return self._wire.stderr

    def interrupt(self) -> None:
        """Send SIGINT to the process and its group."""
        self._wire.send_signal(signals.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        self._wire.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process and its group."""
        self._wire.send_signal(signals.SIGKILL)

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the exit status; None when that takes longer than `timeout` seconds."""
        return await self._wire.wait(timeout)
