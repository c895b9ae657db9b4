"""An event stream, the long answer to a GET, as the client reads it."""

import asyncio
import logging
from collections.abc import Callable

from ..addresses import SILENCE, why_unreachable
from ..sse import Event
from .body import EVENTS, ResponseBody, UnreadableBody
from .exchange import Exchange, Headers
from .link import ServerLink

log = logging.getLogger("dragoman")

ENDED = "the agent's server has ended the connection"


class EventStream:
    """Calls `hear` with events as they arrive, until the answer ends or falls silent."""

    def __init__(self, hear: Callable[[list[Event]], None], limit: int) -> None:
        self._hear = hear
        self._limit = limit
        self._body: ResponseBody | None = None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._exchange: Exchange | None = None
        self._heard_at = self._loop.time()
        self._paused = False
        self._watch: asyncio.TimerHandle | None = None
        self._early: list[Event] | None = []  # until the head of the answer has been checked
        self.goodbye = ENDED  # the reason, once it has ended

    async def open(self, link: ServerLink, headers: Headers) -> int:
        """Request the stream; returns the status of the answer."""
        self._body = ResponseBody(self._limit, self._take, link.unfinished, self._give_up)
        self._exchange = exchange = await link.begin("GET", headers, b"", self._heard, self._over)
        try:
            async with asyncio.timeout(SILENCE):
                reply = await exchange.head()
        except BaseException:
            exchange.cancel()
            raise
        if reply.status == 200 and reply.media_type != EVENTS:
            return 406
        if reply.status == 200:
            self._watch = self._loop.call_later(SILENCE, self._look)
            early, self._early = self._early, None
            if early:
                self._hear(early)
        return reply.status

    def _heard(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        assert self._exchange
        assert self._body
        try:
            self._body.feed(self._exchange.reply.result(), data)
        except UnreadableBody as exc:
            log.warning("giving up an event stream: %s", exc)
            self._exchange.cancel()

    def _take(self, events: list[Event]) -> None:
        if self._early is None:
            self._hear(events)
        else:
            self._early += events

    def _give_up(self) -> None:
        log.info("an event of the agent's server does not end")
        self.close()

    def _over(self, exc: Exception | None) -> None:
        if self._watch:
            self._watch.cancel()
        if self._body:
            self._body.close()
        if isinstance(exc, OSError) and not isinstance(exc, ConnectionAbortedError):  # the end is our own doing
            self.goodbye = f"{ENDED}: {why_unreachable(exc)}"
        if not self.ended.done():
            self.ended.set_result(None)

    def _look(self) -> None:
        """Give up a server that sends nothing, not even comments, unless we did not read."""
        rest = SILENCE - (self._loop.time() - self._heard_at)
        if rest > 0 or self._paused:
            self._watch = self._loop.call_later(max(rest, 1.0), self._look)
        elif self._exchange:
            log.info("the agent's server has been silent for too long")
            self._exchange.cancel()

    def pause(self, paused: bool) -> None:
        self._paused = paused
        self._heard_at = self._loop.time()
        if self._body and paused:
            self._body.pause()
        if self._exchange:
            self._exchange.pause(paused)

    def close(self) -> None:
        if self._exchange:
            self._exchange.cancel()
