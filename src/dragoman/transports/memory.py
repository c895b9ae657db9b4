"""A wire inside this process: two ends, each bounded like a pipe."""

import asyncio

from ..errors import ConnectionClosed
from ..framing import Oversize
from . import LOW_WATER


class MemoryTransport:
    """One end of a wire; `pipe` makes the two."""

    def __init__(self) -> None:
        self._frames: list[bytes | Oversize] = []  # arrived here, not yet received
        self._size = 0
        self._hung_up = False  # by the other end
        self._arrival = asyncio.Event()
        self._taken = asyncio.Event()
        self._other: MemoryTransport

    async def receive(self) -> list[bytes | Oversize]:
        while not self._frames and not self._hung_up:
            self._arrival.clear()
            await self._arrival.wait()
        frames, self._frames, self._size = self._frames, [], 0
        self._taken.set()
        return frames

    def send(self, frames: list[bytes]) -> None:
        if self._other._hung_up:
            return
        self._other._frames += frames
        self._other._size += sum(map(len, frames))
        self._other._arrival.set()

    @property
    def queued(self) -> int:
        return self._other._size

    async def drain(self) -> None:
        while self._other._size > LOW_WATER and not self._hung_up and not self._other._hung_up:
            self._other._taken.clear()
            await self._other._taken.wait()

    async def ended(self) -> Exception:
        return ConnectionClosed("the other side hung up")

    async def close(self) -> None:
        for end in (self, self._other):
            end._hung_up = True
            end._arrival.set()
            end._taken.set()


def pipe() -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends of one wire: what is sent into one is received from the other."""
    left, right = MemoryTransport(), MemoryTransport()
    left._other, right._other = right, left
    return left, right


