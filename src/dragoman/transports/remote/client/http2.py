"""The client's side of HTTP/2: any number of exchanges on one socket."""

import asyncio

import h2.events
import h2.exceptions

from ..http2 import Http2
from ..limits import EARNED, FLOODED, SMALL
from .exchange import Exchange, Headers, ResponseHead, as_sent


class Http2Socket(Http2):
    def __init__(self, authority: str, scheme: str) -> None:
        super().__init__(is_client=True)
        self._authority, self._scheme = authority, scheme
        self._exchanges: dict[int, Exchange] = {}
        # streams that are not read at the moment, with their unacknowledged bytes
        self._paused: dict[int, int] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._is_leaving = False  # the server accepts no new exchanges
        self.is_understood: asyncio.Future[bool] = self._loop.create_future()  # whether the server speaks HTTP/2
        self.gone = asyncio.Event()

    @property
    def is_usable(self) -> bool:
        most = self._h2.remote_settings.max_concurrent_streams
        return not self.is_gone and not self._is_leaving and self._h2.open_outbound_streams < most

    def start(self, exchange: Exchange, method: str, target: str, headers: Headers, body: bytes) -> None:
        special = [
            (":method", method),
            (":scheme", self._scheme),
            (":authority", self._authority),
            (":path", target),
        ]
        sent = [pair for pair in headers if pair[0] != "host"]
        try:
            stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream, as_sent([*special, *sent]), end_stream=not body)
        except (h2.exceptions.ProtocolError, UnicodeEncodeError) as exc:
            exchange.finish(ConnectionResetError(0, str(exc)))
            return
        self._exchanges[stream] = exchange
        self.sent()
        self._flush()
        if not body:
            exchange.arrive()
        else:
            sending = self._loop.create_task(self._send_body(stream, exchange, body), name="body")
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send_body(self, stream: int, exchange: Exchange, body: bytes) -> None:
        try:
            await self.send_data(stream, body, ends=True)
            exchange.arrive()
        except OSError as exc:
            if not exchange.reply.done():  # an early answer is valid
                exchange.finish(exc)

    def handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(stream_id=int(stream), headers=headers):
                if exchange := self._exchanges.get(stream):
                    self._begin(exchange, [(_text(name), _text(value)) for name, value in headers or []])
            case h2.events.DataReceived(stream_id=int(stream), data=data, flow_controlled_length=size):
                self._hear(stream, data or b"", size or 0)
            case h2.events.StreamEnded(stream_id=int(stream)):
                self._finish(stream, None)
            case h2.events.StreamReset(stream_id=int(stream)):
                self._windows.set()
                self._finish(stream, ConnectionResetError(0, "it reset its answer"))
            case h2.events.RemoteSettingsChanged():
                self.spend()
                if not self.is_understood.done():
                    self.is_understood.set_result(True)
            case h2.events.ConnectionTerminated(last_stream_id=last):
                self.spend()
                self._is_leaving = True
                for stream in [stream for stream in self._exchanges if last is not None and stream > last]:
                    self._finish(stream, ConnectionResetError(0, "it accepts no more requests"))
                self._leave()
            case _:  # pings, windows, priorities, hints: no exchange waits for them
                self.spend()

    def _begin(self, exchange: Exchange, headers: Headers) -> None:
        status = dict(headers).get(":status", "")
        if len(status) == 3 and status.isascii() and status.isdigit():
            exchange.begin(ResponseHead(int(status), headers))
        else:
            exchange.finish(ConnectionResetError(0, f"its answer has no status, but {status[:40]!r}"))

    def spend(self, weight: int = 1) -> None:
        super().spend(weight)
        if self.transport.is_closing() and not self.is_gone:
            self.lose(ConnectionResetError(0, FLOODED))
            self.transport.abort()  # the server may not be reading

    def _hear(self, stream: int, data: bytes, size: int) -> None:
        if len(data) < SMALL:
            self.spend()
        else:
            self._allowance.earn(EARNED)
        if stream in self._paused:
            self._paused[stream] += size
        else:
            self.acknowledge(stream, size)
        if (exchange := self._exchanges.get(stream)) and data:
            exchange.heard(data)

    def _finish(self, stream: int, exc: Exception | None) -> None:
        self._paused.pop(stream, None)
        if exchange := self._exchanges.pop(stream, None):
            exchange.finish(exc)
        self._leave()

    def _leave(self) -> None:
        """Close a socket that will not be used any more."""
        if self._is_leaving and not self._exchanges:
            self.transport.close()

    def pause(self, exchange: Exchange, paused: bool) -> None:
        stream = self._stream_of(exchange)
        if paused:
            self._paused.setdefault(stream, 0)
        else:
            self.acknowledge(stream, self._paused.pop(stream, 0))

    def cancel(self, exchange: Exchange) -> None:
        stream = self._stream_of(exchange)
        self.reset(stream)
        self._finish(stream, ConnectionAbortedError(0, "given up"))

    def _stream_of(self, exchange: Exchange) -> int:
        return next((stream for stream, found in self._exchanges.items() if found is exchange), 0)

    def lose(self, exc: Exception) -> None:
        self.is_gone = True
        if not self.is_understood.done():
            self.is_understood.set_result(False)
        for stream in list(self._exchanges):
            self._finish(stream, exc if isinstance(exc, OSError) else ConnectionResetError(0, str(exc)))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()

    async def close(self) -> None:
        self.transport.abort()
        await self.gone.wait()
        if self._sending:
            await asyncio.wait(self._sending)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
