"""The common part of transports to a server: their listener, whether they are held, and why they ended."""

import asyncio
from collections.abc import Callable

from ....errors import ConnectionClosed
from ....framing import Oversize
from ... import LOW_WATER, Hear
from ..routing import MessageHead, withdrawn


class DialledTransport:
    def __init__(self) -> None:
        self.is_held = False
        self._room = LOW_WATER  # waiting bytes below which a sender may continue
        self._hear: Hear | None = None
        self._ended: Callable[[], None] | None = None
        self._taken = asyncio.Event()  # set when waiting bytes were taken, or the transport has ended
        self._why: str | None = None  # the reason, once the transport has ended
        self._is_version_2 = False  # the version of the protocol

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended

    def hold(self) -> None:
        self.is_held = True
        self._pause(True)

    def resume(self) -> None:
        self.is_held = False
        self._pause(False)

    def _pause(self, paused: bool) -> None:
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        return self._why is not None

    @property
    def queued(self) -> int:
        raise NotImplementedError

    async def drain(self) -> None:
        while self._why is None and self.queued > self._room:
            self._taken.clear()
            await self._taken.wait()

    def withdraw(self, message: MessageHead) -> None:
        """Answer a request that was cancelled before the server had it; not while its caller is still sending."""
        answer: list[bytes | Oversize] = [withdrawn(message, is_version_2=self._is_version_2)]
        asyncio.get_running_loop().call_soon(self._tell, answer)

    def _tell(self, frames: list[bytes | Oversize]) -> None:
        if self._hear and self._why is None:
            self._hear(frames)

    async def why_ended(self) -> Exception:
        return ConnectionClosed(self._why or "the connection is closed")

    def end(self, why: str) -> None:
        """End the transport; the first reason counts."""
        if self._why is None:
            self._why = why
            self._taken.set()
            if self._ended:
                self._ended()
