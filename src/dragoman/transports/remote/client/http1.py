"""The client's side of HTTP/1.1: one exchange at a time on a socket."""

import asyncio
import select
import struct
from collections.abc import Callable

import h11

from ....errors import UnsupportedSystem
from ...holding import Holding
from ..limits import EARNED, FLOODED, SMALL, Allowance, PeerPace
from .exchange import Exchange, Headers, ResponseHead, as_sent

MAX_HEAD = 64 * 1024
LOOK_AGAIN = 0.002  # seconds between two checks how much of a request the server has not taken yet


class Http1Socket(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, rests: Callable[["Http1Socket"], None]) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._exchange: Exchange | None = None
        self._allowance = Allowance()
        self._head = PeerPace(lambda: self._break_off("the head of its answer does not end"))
        self._rests = rests  # called when another exchange can follow
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._holding = Holding(
            transport.pause_reading, transport.resume_reading, transport.get_extra_info("socket").fileno
        )

    def start(self, exchange: Exchange, method: str, target: str, headers: Headers, body: bytes) -> None:
        self._exchange = exchange
        self._allowance.earn(EARNED)
        self.pause(exchange, False)  # the previous exchange may have ended while it was held
        sent = [*headers, ("content-length", str(len(body)))] if body or method == "POST" else headers
        try:
            request = h11.Request(method=method, target=target, headers=as_sent(sent))
            events = (request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage())
            data = b"".join(self._http.send(event) or b"" for event in events)
        except (h11.LocalProtocolError, UnicodeEncodeError) as exc:
            self._break_off(f"the request cannot be written: {exc}")
            return
        self.transport.write(data)
        self._look(exchange)

    def _look(self, exchange: Exchange) -> None:
        """Wait until the server's system has the request, so that messages on another socket do not overtake it."""
        if exchange.is_over or exchange.sent.done():
            return
        if self.transport.get_write_buffer_size() or _unacknowledged(self.transport):
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look, exchange)
        else:
            exchange.arrive()

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:  # unrequested, so it is not the answer to the next request
            self.transport.abort()
            return
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> None:
        self._http.receive_data(b"")
        self._advance()
        self.transport.close()

    def _advance(self) -> None:
        exchange = self._exchange
        try:
            while exchange is not None and not exchange.is_over:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    break
                if isinstance(event, h11.Response):
                    headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
                    exchange.begin(ResponseHead(event.status_code, headers))
                elif isinstance(event, h11.Data):
                    self._weigh(event)
                    exchange.heard(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._finish(exchange)
                elif isinstance(event, h11.InformationalResponse):
                    self._spend(1 + len(event.headers))
                else:
                    return
        except h11.RemoteProtocolError as exc:
            self._break_off(f"it broke the rules of HTTP: {exc}")
        if exchange and not exchange.reply.done() and self._http.trailing_data[0]:
            self._head.go_on(0)
        else:
            self._head.stop()

    def _weigh(self, part: h11.Data) -> None:
        if len(part.data) >= SMALL:
            self._allowance.earn(EARNED)
        elif part.chunk_end:
            self._spend()

    def _spend(self, weight: int = 1) -> None:
        if not self._allowance.spend(weight):
            self._break_off(FLOODED)

    def _break_off(self, why: str) -> None:
        self.transport.abort()
        if self._exchange:
            self._exchange.finish(ConnectionResetError(0, why))

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if is_done and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
            self._rests(self)
        else:
            self.transport.close()
        exchange.finish(None)

    def pause(self, exchange: Exchange, paused: bool) -> None:
        if not self.transport.is_closing():
            (self._holding.hold if paused else self._holding.resume)()

    def cancel(self, exchange: Exchange) -> None:
        self.transport.abort()
        exchange.finish(ConnectionAbortedError(0, "given up"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._holding.stop()
        self.gone.set()
        if self._exchange:
            self._exchange.finish(exc if isinstance(exc, OSError) else ConnectionResetError(0, "it hung up"))

    @property
    def is_usable(self) -> bool:
        """Whether another exchange may begin: the server has neither hung up nor sent anything unrequested."""
        return not self.transport.is_closing() and self._exchange is None and not _has_news(self.transport)

    async def close(self) -> None:
        self.transport.abort()
        await self.gone.wait()


def _has_news(transport: asyncio.Transport) -> bool:
    """Whether the socket has something unread, such as the end, that the event loop has not handled yet."""
    fd = transport.get_extra_info("socket").fileno()
    if not hasattr(select, "poll"):  # as on Windows
        return bool(select.select([fd], [], [], 0)[0])
    looking = select.poll()
    looking.register(fd, select.POLLIN)
    return bool(looking.poll(0))


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the system was given and that have not arrived; 0 where the system cannot tell."""
    try:
        from ....foundation.unix import fcntl, termios

        answer = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    except (AttributeError, OSError, ValueError, UnsupportedSystem):
        return 0
    return int(struct.unpack("i", answer)[0])
