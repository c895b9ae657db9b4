"""What was sent and may have to be sent again: frames with numbers, kept until the peer has them.

The frames of one direction are counted from 1.  Whoever receives says now and then how far it has come; whoever
sends keeps what lies beyond that, so a wire that drops can be taken up again without a frame lost or doubled.
"""

from collections import deque
from collections.abc import Sequence

ACKNOWLEDGE_EVERY = 256 * 1024  # bytes heard before the peer is told, if nothing else tells it sooner


def read_number(text: str | bytes) -> int | None:
    """A frame's number as a peer wrote it; None when it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class Log:
    """The frames that were sent, from the first the peer may still lack."""

    def __init__(self) -> None:
        self.last = 0  # the number of the newest frame ever added
        self.size = 0  # bytes kept
        self._frames: deque[bytes] = deque()

    def append(self, frames: Sequence[bytes]) -> None:
        self._frames.extend(frames)
        self.last += len(frames)
        self.size += sum(map(len, frames))

    def covers(self, number: int) -> bool:
        """Whether everything after this number is still here, and this number was ever given."""
        return self.last - len(self._frames) <= number <= self.last

    def forget(self, number: int) -> None:
        """The peer has everything up to this number."""
        for _ in range(min(number, self.last) - (self.last - len(self._frames))):
            self.size -= len(self._frames.popleft())

    def trim(self, size: int) -> None:
        """Forget the oldest frames until no more than so many bytes are kept."""
        while self.size > size:
            self.size -= len(self._frames.popleft())

    def frames(self) -> list[bytes]:
        """All that is kept, in order."""
        return list(self._frames)

    def take_back(self) -> list[bytes]:
        """All that is kept, to be added anew: it is as if it had never been sent."""
        frames = list(self._frames)
        self._frames.clear()
        self.last -= len(frames)
        self.size = 0
        return frames


class Receipt:
    """How far one has come in hearing the peer, and whether it is time to tell it."""

    def __init__(self) -> None:
        self.count = 0  # frames heard
        self._bytes = 0  # heard since the peer was told last

    def add(self, frames: int, size: int) -> bool:
        """Count what was heard; true when the peer should be told."""
        self.count += frames
        self._bytes += size
        return self._bytes >= ACKNOWLEDGE_EVERY

    @property
    def is_due(self) -> bool:
        """Whether anything was heard of which the peer has not been told."""
        return self._bytes > 0

    def tell(self) -> int:
        """The number to tell the peer now."""
        self._bytes = 0
        return self.count
