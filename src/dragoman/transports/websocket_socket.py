"""One socket of a WebSocket wire, the client's side: from its handshake to its drop."""

import asyncio
import contextlib
import logging
from typing import Protocol

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.frames import Frame
from websockets.http11 import Response
from websockets.uri import WebSocketURI

from ..errors import ConnectionClosed
from . import HIGH_WATER, LOW_WATER
from .addresses import LAST_WORDS, PING_EVERY, TEMPORARY, Address
from .websocket_messages import Messages, write_out

log = logging.getLogger("dragoman")
protocol_log = logging.getLogger("dragoman.websocket")
protocol_log.setLevel(logging.INFO)  # below that it would hold every header, credentials included


class Wire(Protocol):
    """What a socket reports to."""

    def heard(self, frames: list[bytes], size: int) -> None: ...

    def acknowledge(self) -> None:
        """It is a good moment to say how far we have heard the server."""

    def acknowledged(self, data: bytes) -> None:
        """A binary frame came: how far the server has heard us."""

    def may_send(self) -> None: ...

    def dropped(self, socket: "WebSocketSocket", code: int, reason: str) -> None: ...


class WebSocketSocket(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, wire: Wire, limit: int) -> None:
        self._wire, self._limit = wire, limit
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Response] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._paused = False
        self._heard_at = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self._protocol: ClientProtocol
        self._messages: Messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    async def shake_hands(self, address: Address, headers: list[tuple[str, str]]) -> Response:
        uri = WebSocketURI(address.is_secure, address.host, address.port, *_split(address.target))
        self._protocol = ClientProtocol(uri, max_size=self._limit, logger=protocol_log)
        self._messages = Messages(self._protocol, self._wire.acknowledged)
        request = self._protocol.connect()
        for name, value in headers:
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()
        response = await self._opened
        self._beat = self._loop.call_later(PING_EVERY, self._ping)
        return response

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._protocol.receive_data(data)
        self._handle()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._handle()

    def _handle(self) -> None:
        frames: list[Frame] = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                frames.append(event)
            elif not self._opened.done() and self._protocol.handshake_exc is None:
                assert isinstance(event, Response)
                self._opened.set_result(event)
        if self._protocol.handshake_exc is not None and not self._opened.done():
            self._opened.set_exception(_refusal(self._protocol.handshake_exc))
        if texts := self._messages.take(frames):
            self._wire.heard(texts, sum(map(len, texts)))
        self._flush()

    def send_texts(self, frames: list[bytes]) -> None:
        if self._protocol.close_expected() or self.transport.is_closing():
            return
        for frame in frames:
            self._protocol.send_text(frame)
        self._flush()

    def send_binary(self, data: bytes) -> None:
        if not self._protocol.close_expected() and not self.transport.is_closing():
            self._protocol.send_binary(data)
            self._flush()

    def _flush(self) -> None:
        write_out(self._protocol, self.transport)

    def pause(self, paused: bool) -> None:
        if paused is not self._paused and not self.transport.is_closing():
            self._paused = paused
            self._heard_at = self._loop.time()  # whoever does not listen hears nothing
            (self.transport.pause_reading if paused else self.transport.resume_reading)()

    def _ping(self) -> None:
        self._beat = self._loop.call_later(PING_EVERY, self._ping)
        if self._loop.time() - self._heard_at > 2 * PING_EVERY and not self._paused:
            log.info("the agent's server has been silent for too long")
            self.transport.abort()
        elif not self._protocol.close_expected() and not self.transport.is_closing():
            self._protocol.send_ping(b"")
            self._flush()
            self._wire.acknowledge()

    def resume_writing(self) -> None:
        self._wire.may_send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        if self._beat:
            self._beat.cancel()
        if not self._opened.done():
            self._opened.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError("it hung up"))
            return
        close = self._protocol.close_rcvd or (self._protocol.close_sent if self._protocol.parser_exc else None)
        self._wire.dropped(self, close.code if close else 1006, close.reason if close else "")

    async def close(self) -> None:
        """Send what is queued and a goodbye if the peer still takes them, then let go."""
        if not self._protocol.close_expected() and not self.transport.is_closing():
            self._protocol.send_close(1000)
            self._flush()
        self.pause(False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._gone.wait()
        self.abort()
        await self._gone.wait()

    def abort(self) -> None:
        self.transport.abort()


def _split(target: str) -> tuple[str, str]:
    path, _, query = target.partition("?")
    return path, query


def _refusal(exc: Exception) -> Exception:
    """What a failed handshake means: an OSError when another try may do, a ConnectionClosed when not."""
    if isinstance(exc, InvalidStatus):
        status = exc.response.status_code
        if status in TEMPORARY:
            return ConnectionRefusedError(0, f"the server answered with status {status}")
        body = bytes(exc.response.body or b"")[:200].decode(errors="replace").strip()
        return ConnectionClosed(f"the server refused a WebSocket with status {status}{body and ': ' + body}")
    if isinstance(exc, InvalidMessage) and isinstance(exc.__cause__, EOFError):
        return ConnectionResetError(0, "it hung up")
    if isinstance(exc, InvalidHandshake):
        return ConnectionClosed(f"the server does not speak WebSocket: {exc}")
    return exc
