"""Wires: each carries frames both ways and knows why it ended."""

from typing import Protocol

from ..framing import Oversize

HIGH_WATER = 1024 * 1024  # bytes waiting on one side of a wire before its producer is held up
LOW_WATER = HIGH_WATER // 4


class Transport(Protocol):
    """A wire that carries whole frames."""

    async def receive(self) -> list[bytes | Oversize]:
        """The frames that have arrived, at least one; none when the peer has hung up."""
        ...

    def send(self, frames: list[bytes]) -> None:
        """Queue frames; never blocks, never tears a frame, and is nothing once the wire is gone."""
        ...

    @property
    def queued(self) -> int:
        """How many bytes wait to be taken by the peer."""
        ...

    async def drain(self) -> None:
        """Return once the peer has taken most of what waits, or is gone."""
        ...

    async def ended(self) -> Exception:
        """Why the wire is gone, as the error that everything pending on it fails with."""
        ...

    async def close(self) -> None:
        """Hang up, and let go of everything behind the wire; returns when that has happened."""
        ...
