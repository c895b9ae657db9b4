"""The client's side of HTTP/1.1: one exchange at a time on a socket."""

import asyncio
from collections.abc import Callable

import h11

from .http_exchange import Exchange, Headers, Reply

MAX_HEAD = 64 * 1024


class Http1Socket(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, rests: Callable[["Http1Socket"], None]) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._exchange: Exchange | None = None
        self._paused = False
        self._rests = rests  # told when another exchange could follow
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def start(self, exchange: Exchange, method: str, target: str, headers: Headers, body: bytes) -> None:
        self._exchange = exchange
        sent = [*headers, ("content-length", str(len(body)))] if body or method == "POST" else list(headers)
        request = h11.Request(method=method, target=target, headers=sent)
        events = (request, *([h11.Data(data=body)] if body else []), h11.EndOfMessage())
        self.transport.write(b"".join(self._http.send(event) or b"" for event in events))

    def data_received(self, data: bytes) -> None:
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
                if isinstance(event, h11.Response):
                    headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
                    exchange.begin(Reply(event.status_code, headers))
                elif isinstance(event, h11.Data):
                    exchange.heard(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._finish(exchange)
                elif not isinstance(event, h11.InformationalResponse):
                    return
        except h11.RemoteProtocolError as exc:
            self.transport.abort()
            if exchange:
                exchange.finish(ConnectionResetError(0, f"it broke the rules of HTTP: {exc}"))

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._rests(self)
        else:
            self.transport.close()
        exchange.finish(None)

    def pause(self, exchange: Exchange, paused: bool) -> None:
        if paused is not self._paused and not self.transport.is_closing():
            self._paused = paused
            (self.transport.pause_reading if paused else self.transport.resume_reading)()

    def cancel(self, exchange: Exchange) -> None:
        self.transport.abort()
        exchange.finish(ConnectionAbortedError(0, "given up"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        if self._exchange:
            self._exchange.finish(exc if isinstance(exc, OSError) else ConnectionResetError(0, "it hung up"))

    @property
    def is_usable(self) -> bool:
        return not self.transport.is_closing() and self._exchange is None

    async def close(self) -> None:
        self.transport.abort()
        await self.gone.wait()
