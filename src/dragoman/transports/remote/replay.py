"""Numbered frames, kept until the peer has them, and checked when they arrive.

The frames of one direction are numbered from 1, and the number travels with the frame.  The receiver takes the next
number, ignores one it has, and drops the socket at a gap.  From time to time it acknowledges the last number; the
sender keeps all later frames, so that a dropped connection can be resumed without a frame lost or repeated.
"""

from collections import deque
from collections.abc import Iterable, Sequence

ACKNOWLEDGE_EVERY = 256 * 1024  # bytes received after which they are acknowledged at the latest


class OutOfOrder(ConnectionResetError):
    """A frame arrived before an earlier one, or without a number: the socket is dropped and opened again."""


def read_number(text: str | bytes) -> int | None:
    """A frame's number as a peer wrote it; None if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def write_numbered(frames: Iterable[bytes], first: int) -> list[bytes]:
    """Frames as texts that begin with their number."""
    return [b"%d %b" % (number, frame) for number, frame in enumerate(frames, first)]


class Log:
    """The sent frames, from the first that the peer may still lack."""

    def __init__(self) -> None:
        self.last = 0  # the number of the newest frame in the log, or of the last one that was in it
        self.size = 0  # bytes kept
        self._frames: deque[bytes] = deque()

    @property
    def forgotten(self) -> int:
        """The number of the last frame that is no longer kept."""
        return self.last - len(self._frames)

    def append(self, frames: Sequence[bytes]) -> None:
        self._frames.extend(frames)
        self.last += len(frames)
        self.size += sum(map(len, frames))

    def covers(self, number: int) -> bool:
        """Whether all frames after this number are still kept, and this number was ever used."""
        return self.forgotten <= number <= self.last

    def forget(self, number: int) -> None:
        """Forget all frames up to this number, since the peer has them."""
        for _ in range(min(number, self.last) - self.forgotten):
            self.size -= len(self._frames.popleft())

    def replace(self, frame: bytes, other: bytes) -> None:
        """Replace a frame that was never sent by another one with the same number."""
        self._frames[self._frames.index(frame)] = other
        self.size += len(other) - len(frame)

    def trim(self, size: int) -> None:
        """Forget the oldest frames until at most `size` bytes are kept."""
        while self.size > size:
            self.size -= len(self._frames.popleft())

    def frames(self) -> list[bytes]:
        """All kept frames, in order."""
        return list(self._frames)

    def take_back(self) -> list[bytes]:
        """Take out all kept frames, to send them again under the same numbers."""
        frames = list(self._frames)
        self._frames.clear()
        self.last -= len(frames)
        self.size = 0
        return frames


class Receipt:
    """The number of the last received frame, and whether it is time to acknowledge it."""

    def __init__(self) -> None:
        self.count = 0  # the number of the last received frame
        self.received = 0  # bytes
        self._acknowledged = 0  # of these

    def admit(self, number: int | None) -> bool:
        """Whether a frame is the next one; false for a repeated one, raises OutOfOrder for any other."""
        if number == self.count + 1:
            self.count += 1
            return True
        if number is None or number > self.count:
            raise OutOfOrder(0, f"frame {number} came after frame {self.count}")
        return False

    def admit_numbered(self, texts: Iterable[bytes]) -> tuple[list[bytes], OutOfOrder | None]:
        """The new frames among numbered texts, up to a gap, and that gap."""
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
        """Count received bytes; true when they should be acknowledged."""
        self.received += size
        return self.is_overdue

    @property
    def is_due(self) -> bool:
        """Whether received frames are not acknowledged yet."""
        return self.received > self._acknowledged

    @property
    def is_overdue(self) -> bool:
        """Whether so many bytes are not acknowledged that the peer may wait for it before it sends more."""
        return self.received - self._acknowledged >= ACKNOWLEDGE_EVERY

    def tell(self) -> int:
        """The number to acknowledge now, on a socket that is dropped unless the number arrives."""
        self._acknowledged = self.received
        return self.count

    def note_acknowledged(self, received: int) -> None:
        """Note that the peer knows of the first so many received bytes."""
        self._acknowledged = max(self._acknowledged, received)
