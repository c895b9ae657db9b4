"""Wires: each carries frames both ways and knows why it ended."""

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from ..errors import LocalProtocolError
from ..framing import Oversize

HIGH_WATER = 1024 * 1024  # bytes waiting to be taken by the peer before a sender is held up
LOW_WATER = HIGH_WATER // 4

_claimed: "WeakSet[Transport]" = WeakSet()  # wires that carry a connection, or have carried one

Hear = Callable[[list[bytes | Oversize]], None]


class Transport(Protocol):
    """A wire that carries whole frames."""

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        """Start: `hear` is called with the frames as they arrive, `ended` once, after the last of them."""
        ...

    def hold(self) -> None:
        """Stop reading, so that the peer has to wait; frames already on their way may still be heard."""
        ...

    def resume(self) -> None:
        """Go on reading."""
        ...

    def send(self, frames: list[bytes]) -> None:
        """Queue frames; never blocks, never tears a frame, and is nothing once the wire is gone."""
        ...

    @property
    def queued(self) -> int:
        """How many bytes wait to be taken by the peer."""
        ...

    async def drain(self) -> None:
        """Return once the peer has taken most of the waiting bytes, or is gone."""
        ...

    async def why_ended(self) -> Exception:
        """Why the wire is gone, as the error that everything pending on it fails with."""
        ...

    async def close(self) -> None:
        """Hang up, and let go of everything behind the wire; returns when that has happened."""
        ...


def claim(transport: Transport) -> None:
    """Take a wire for one connection; raises LocalProtocolError where it has carried another."""
    if transport in _claimed:
        raise LocalProtocolError("this transport has carried a connection before: make one for each connection")
    _claimed.add(transport)
