"""Frames with numbers, kept until the peer has them, and checked when they arrive.

The frames of one direction are numbered from 1, and the number travels with the frame.  The receiver takes the next
number, ignores one it has, and drops the socket at a gap.  Now and then it says how far it has come; the sender
keeps what lies beyond that, so a wire that drops can be taken up again without a frame lost or doubled.
"""

from collections import deque
from collections.abc import Iterable, Sequence

ACKNOWLEDGE_EVERY = 256 * 1024  # bytes heard before the peer is told, if nothing else tells it sooner


class OutOfOrder(ConnectionResetError):
    """A frame came before one in front of it, or without a number: the socket is dropped and opened again."""


def read_number(text: str | bytes) -> int | None:
    """A frame's number as a peer wrote it; None when it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def write_numbered(frames: Iterable[bytes], first: int) -> list[bytes]:
    """Frames as texts that begin with their number."""
    return [b"%d %b" % (number, frame) for number, frame in enumerate(frames, first)]


class Log:
    """The frames that were sent, from the first the peer may still lack."""

    def __init__(self) -> None:
        self.last = 0  # the number of the newest frame here, or of the last before them
        self.size = 0  # bytes kept
        self._frames: deque[bytes] = deque()

    @property
    def forgotten(self) -> int:
        """The number of the last frame that is no longer here."""
        return self.last - len(self._frames)

    def append(self, frames: Sequence[bytes]) -> None:
        self._frames.extend(frames)
        self.last += len(frames)
        self.size += sum(map(len, frames))

    def covers(self, number: int) -> bool:
        """Whether everything after this number is still here, and this number was ever given."""
        return self.forgotten <= number <= self.last

    def forget(self, number: int) -> None:
        """The peer has everything up to this number."""
        for _ in range(min(number, self.last) - self.forgotten):
            self.size -= len(self._frames.popleft())

    def replace(self, frame: bytes, other: bytes) -> None:
        """Have another frame under the number of one that was never sent."""
        self._frames[self._frames.index(frame)] = other
        self.size += len(other) - len(frame)

    def trim(self, size: int) -> None:
        """Forget the oldest frames until no more than so many bytes are kept."""
        while self.size > size:
            self.size -= len(self._frames.popleft())

    def frames(self) -> list[bytes]:
        """All that is kept, in order."""
        return list(self._frames)

    def take_back(self) -> list[bytes]:
        """All that is kept, to be sent anew under the same numbers."""
        frames = list(self._frames)
        self._frames.clear()
        self.last -= len(frames)
        self.size = 0
        return frames


class Receipt:
    """How far one has come in hearing the peer, and whether it is time to tell it."""

    def __init__(self) -> None:
        self.count = 0  # the number of the last frame heard
        self._bytes = 0  # heard since the peer was told last

    def admit(self, number: int | None) -> bool:
        """Whether a frame is the next one; false for one that was heard before, OutOfOrder for any other."""
        if number == self.count + 1:
            self.count += 1
            return True
        if number is None or number > self.count:
            raise OutOfOrder(0, f"frame {number} came after frame {self.count}")
        return False

    def admit_numbered(self, texts: Iterable[bytes]) -> tuple[list[bytes], OutOfOrder | None]:
        """The frames of numbered texts that are new, up to a gap, and that gap."""
        frames: list[bytes] = []
        for text in texts:
            digits, _, frame = text.partition(b" ")
            try:
                if self.admit(read_number(digits)):
                    frames.append(frame)
            except OutOfOrder as gap:
                return frames, gap
        return frames, None

    def add(self, size: int) -> bool:
        """Count the bytes that were heard; true when the peer should be told."""
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
