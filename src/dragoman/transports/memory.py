"""A transport inside this process: two ends, each bounded like a pipe."""

import asyncio
from collections.abc import Callable

from ..errors import ConnectionClosed
from . import LOW_WATER, Hear


class MemoryTransport:
    """One end of a transport in memory; `pipe` makes both."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []  # frames on their way to this end
        self._size = 0
        self._taken = asyncio.Event()
        self._held = False
        self._due = False  # a delivery is scheduled
        self._hung_up = False
        self._why = "the other side hung up"
        self._hear: Hear | None = None
        self._ended: Callable[[], None] | None = None
        self._other: MemoryTransport

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended
        self._deliver_soon()

    def hold(self) -> None:
        self._held = True

    def resume(self) -> None:
        self._held = False
        self._deliver_soon()

    def send(self, frames: list[bytes]) -> None:
        if not self._hung_up:
            self._other._frames += frames
            self._other._size += sum(map(len, frames))
            self._other._deliver_soon()

    @property
    def queued(self) -> int:
        return self._other._size

    async def drain(self) -> None:
        while self._other._size > LOW_WATER and not self._hung_up:
            self._other._taken.clear()
            await self._other._taken.wait()

    async def why_ended(self) -> Exception:
        return ConnectionClosed(self._why)

    def fail(self, exc: Exception) -> None:
        """Report an error of this end to the other end."""
        self._other._why = f"the other side failed: {exc}"

    async def close(self) -> None:
        for end in (self, self._other):
            end._hung_up = True
            end._taken.set()
            end._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._hear and not self._due and (self._hung_up or (self._frames and not self._held)):
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        frames, self._frames, self._size = self._frames, [], 0
        self._taken.set()
        if frames and self._hear:
            self._hear(list(frames))
        if self._hung_up and self._ended:
            ended, self._ended = self._ended, None
            ended()


def pipe() -> tuple[MemoryTransport, MemoryTransport]:
    """Two connected ends: frames sent into one arrive at the other."""
    left, right = MemoryTransport(), MemoryTransport()
    left._other, right._other = right, left
    return left, right
