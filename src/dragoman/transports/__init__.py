"""Transports (also called wires): each carries frames both ways and knows why it ended."""

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from ..errors import LocalProtocolError
from ..framing import Oversize

HIGH_WATER = 1024 * 1024  # unsent bytes above which a sender has to wait
LOW_WATER = HIGH_WATER // 4

_claimed: "WeakSet[Transport]" = WeakSet()  # transports that carry a connection, or have carried one

Hear = Callable[[list[bytes | Oversize]], None]


class Transport(Protocol):
    """Carries whole frames in both directions."""

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        """Start: `hear` is called with frames as they arrive, `ended` once, after the last frame."""
        ...

    def hold(self) -> None:
        """Stop reading, so that the peer has to wait; frames already received may still be delivered."""
        ...

    def resume(self) -> None:
        """Continue reading."""
        ...

    def send(self, frames: list[bytes]) -> None:
        """Queue frames; never blocks, never divides a frame, and does nothing once the transport has ended."""
        ...

    @property
    def queued(self) -> int:
        """How many bytes the peer has not taken yet."""
        ...

    async def drain(self) -> None:
        """Return once the peer has taken most of the waiting bytes, or has disconnected."""
        ...

    async def why_ended(self) -> Exception:
        """Why the transport ended, as the error with which all pending calls fail."""
        ...

    async def close(self) -> None:
        """Hang up and release everything that belongs to the transport; returns when that is done."""
        ...


def claim(transport: Transport) -> None:
    """Claim a transport for one connection; raises LocalProtocolError if it has carried another."""
    if transport in _claimed:
        raise LocalProtocolError("this transport has carried a connection before: make one for each connection")
    _claimed.add(transport)
