"""One request and its answer, over any version of HTTP."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

Headers = Sequence[tuple[str, str]]

JSON = ("content-type", "application/json")
ACCEPTS = ("accept", "application/json, text/event-stream")
ANSWER_TIMEOUT = 600.0  # seconds for the answer to a POST; a server without room for a message may take long


MAX_NAMED = 1024  # characters of an id in a header


def can_be_named(id: str) -> bool:
    """Whether an id can be the value of a header: ids come from the other side and may be any text."""
    return 0 < len(id) <= MAX_NAMED and id.isascii() and id.isprintable() and id == id.strip()


def as_sent(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers as bytes; those that arrived in Latin-1, such as a connection's id, are sent back unchanged."""
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]


class ResponseHead(Struct, frozen=True):
    """The head of an answer; header names are in lower case."""

    status: int
    headers: Headers

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    def get(self, name: str) -> str:
        """A header's value; empty when it is missing."""
        return next((value for found, value in self.headers if found == name), "")

    @property
    def media_type(self) -> str:
        """The type of the body, without its parameters, in lower case."""
        return self.get("content-type").partition(";")[0].strip().lower()

    def all(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]


class Carrier(Protocol):
    """A socket that exchanges are made on."""

    def start(self, exchange: "Exchange", method: str, target: str, headers: Headers, body: bytes) -> None: ...

    def pause(self, exchange: "Exchange", paused: bool) -> None:
        """Stop or continue reading the answer's body."""

    def cancel(self, exchange: "Exchange") -> None:
        """Give up the exchange; its end is reported at once."""


class Exchange:
    """An exchange: `reply` gets the head, `heard` the body as it arrives, `over` the end and its error, if any."""

    def __init__(
        self, carrier: Carrier, heard: Callable[[bytes], None], over: Callable[[Exception | None], None]
    ) -> None:
        self.reply: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        # a caller need not await it
        self.reply.add_done_callback(lambda reply: reply.cancelled() or reply.exception())
        self.sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the server has the request
        self.heard = heard
        self.is_over = False
        self._over = over
        self._carrier = carrier

    async def head(self) -> ResponseHead:
        """The head of the answer, once it has arrived; raises OSError when there is none.

        Cancelling this call does not end the exchange.
        """
        return await asyncio.shield(self.reply)

    def begin(self, reply: ResponseHead) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)

    def arrive(self) -> None:
        """Note that the server has the whole request."""
        if not self.sent.done():
            self.sent.set_result(None)

    def finish(self, exc: Exception | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        if not self.reply.done():
            self.reply.set_exception(exc or ConnectionResetError("it hung up"))
        self.arrive()
        self._over(exc)

    def pause(self, paused: bool) -> None:
        if not self.is_over:
            self._carrier.pause(self, paused)

    def cancel(self) -> None:
        if not self.is_over:
            self._carrier.cancel(self)
