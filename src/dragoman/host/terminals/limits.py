"""Limits of terminals for one session and for all of them together."""

from dataclasses import dataclass

MiB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class TerminalLimits:
    """Limits of terminals; None means no limit.  Times are in seconds, sizes in bytes, the others are counts."""

    per_session: int = 64  # terminals not yet released
    per_host: int = 256
    output: int = 1 * MiB  # bytes kept of a command's output, unless the agent requests another limit
    output_most: int = 16 * MiB  # and the most that the agent can request
    wall_time: float | None = None
    grace: float = 2.0  # between SIGTERM and SIGKILL
    # The kernel enforces these four for each process of a command by itself.
    cpu_time: int | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None

    def kept(self, asked: int | None) -> int:
        """How much output is kept when an agent requests this much."""
        return min(self.output if asked is None else asked, self.output_most)

    def lasting(self, asked: float | None) -> float | None:
        """How long a command may run when an agent requests this time."""
        times = [time for time in (asked, self.wall_time) if time is not None]
        return min(times, default=None)

    def resources(self) -> dict[str, int]:
        """The kernel's limits by name; core dumps are disabled, since they contain secrets."""
        asked = {"CPU": self.cpu_time, "AS": self.memory, "FSIZE": self.file_size, "NOFILE": self.open_files}
        return {"CORE": 0} | {name: value for name, value in asked.items() if value is not None}
