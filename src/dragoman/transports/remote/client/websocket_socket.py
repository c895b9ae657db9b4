"""One socket of a WebSocket transport, on the client's side, from its handshake to its end."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.uri import WebSocketURI

from ....errors import ConnectionClosed
from ... import HIGH_WATER, LOW_WATER
from ..addresses import LAST_WORDS, PING_EVERY, TEMPORARY, Address, why_unreachable
from ..limits import EARNED, FLOODED, SMALL, Allowance, PeerPace
from ..websocket_messages import Messages, write_out

if TYPE_CHECKING:
    from .websocket import WebSocketTransport

log = logging.getLogger("dragoman")
LONGEST_CONTROL = 125  # bytes of a ping, a pong or a close, as the standard has it
MAX_UNREAD = 1024 * 1024  # bytes of pongs that may wait for a server that does not read

protocol_log = logging.getLogger("dragoman.websocket")
protocol_log.setLevel(logging.INFO)  # below this level it would log every header, credentials included


class WebSocketSocket(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, wire: "WebSocketTransport", limit: int) -> None:
        self._wire, self._limit = wire, limit
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Response] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._paused = False
        self._ending: asyncio.TimerHandle | None = None  # set once the close frame was sent
        self._unread = 0  # bytes of pongs and the like that the server does not take
        self._allowance = Allowance()
        self._pace = PeerPace(self._give_up)
        self._heard_at = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self._early: list[bytes] | None = []  # until the answer to the handshake has been checked
        self._protocol: ClientProtocol
        self._messages: Messages

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    async def shake_hands(self, address: Address, headers: list[tuple[str, str]]) -> Response:
        uri = WebSocketURI(address.is_secure, address.host, address.port, *_split(address.target))
        self._protocol = ClientProtocol(uri, max_size=self._limit, logger=protocol_log)
        self._messages = Messages(self._protocol, self._wire.heard_binary)
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
        if self._opened.done() and self._messages.held and not self._paused:
            self._pace.go_on(len(data))
        else:
            self._pace.stop()

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
        self._weigh(frames)
        if texts := self._messages.take(frames):
            if self._early is None:
                self._wire.heard(self, texts)
            else:
                self._early += texts
        self._flush_answers()
        if self._protocol.close_expected() and self._ending is None:  # if the server does not hang up, we do
            self._ending = self._loop.call_later(LAST_WORDS, self.transport.abort)

    def _weigh(self, frames: list[Frame]) -> None:
        """Count empty frames; a server that sends too many is disconnected."""
        short = [frame for frame in frames if len(frame.data) <= LONGEST_CONTROL]
        idle = sum(len(frame.data) < SMALL or frame.opcode >= Opcode.CLOSE for frame in short)
        self._allowance.earn(EARNED * (len(frames) - idle))
        if idle and not self._allowance.spend(idle):
            self._protocol.fail(CloseCode.POLICY_VIOLATION, FLOODED)

    def _give_up(self) -> None:
        log.info("a message of the agent's server does not end")
        self.transport.abort()

    def _flush_answers(self) -> None:
        """Answer received frames, mainly pings; a server that sends pings and does not read is given up."""
        before = self.transport.get_write_buffer_size()
        self._flush()
        grown = self.transport.get_write_buffer_size() - before
        self._unread = self._unread + grown if before else 0
        if self._unread > MAX_UNREAD:
            log.info("the agent's server does not read our answers")
            self.transport.abort()

    def deliver(self) -> None:
        """Report frames from now on, and those that arrived since the handshake."""
        early, self._early = self._early, None
        if early:
            self._wire.heard(self, early)

    def send_texts(self, frames: list[bytes]) -> None:
        if self._protocol.close_expected() or self.transport.is_closing():
            return
        self._allowance.earn(EARNED * len(frames))
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
            self._heard_at = self._loop.time()  # without a listener nothing is reported
            self._pace.stop()
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
        self._pace.stop()
        for timer in (self._beat, self._ending):
            if timer:
                timer.cancel()
        if not self._opened.done():
            self._opened.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError("it hung up"))
            self._opened.exception()  # the waiting task may have been cancelled
            return
        # our own reason, where the server broke a rule
        close = self._protocol.close_rcvd or self._protocol.close_sent
        if close:
            self._wire.dropped(self, close.code, close.reason)
        else:
            self._wire.dropped(self, CloseCode.ABNORMAL_CLOSURE, why_unreachable(exc) if exc else "")

    async def close(self) -> None:
        """Send the queued frames and a close frame if the peer still takes them, then close the socket."""
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
    """The error for a failed handshake: an OSError if another attempt may succeed, else a ConnectionClosed."""
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
