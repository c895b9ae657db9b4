"""A remote agent over a WebSocket: one message a text frame, everything on one socket.

Where the server keeps a log, which it says when the socket is opened, a drop is no end: the socket is opened again,
either side says how far it had heard the other, and what was lost on the way is sent again.  Acknowledgements go as
binary frames, which are no messages.  With any other server a drop is the end.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Mapping

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import SEND_EOF
from websockets.uri import WebSocketURI

from ..errors import AgentStartError, ConnectionClosed
from ..framing import MAX_FRAME
from . import HIGH_WATER, LOW_WATER, Hear
from .addresses import (
    CONNECTION,
    DIAL_TIMEOUT,
    LAST_EVENT,
    PATIENCE,
    Address,
    Persistence,
    open_socket,
    read_url,
    why_unreachable,
)
from .cookies import CookieJar
from .replay import ACKNOWLEDGE_EVERY, Log, Receipt

log = logging.getLogger("dragoman")
protocol_log = logging.getLogger("dragoman.websocket")
protocol_log.setLevel(logging.INFO)  # below that it would hold every header, credentials included

PING_EVERY = 20.0  # seconds; a peer silent for twice as long is gone
LAST_WORDS = 0.5  # seconds for what is still on its way when a wire closes
FINAL_CODES = {1000, 1002, 1003, 1007, 1008, 1009}  # closed on purpose, or would be closed again
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
ROOM = LOW_WATER + ACKNOWLEDGE_EVERY  # unacknowledged bytes at which a sender goes on


class WebSocketTransport:
    def __init__(
        self,
        address: Address,
        headers: list[tuple[str, str]],
        tls: ssl.SSLContext | None,
        *,
        resumes: bool,
        limit: int,
        patience: float,
    ) -> None:
        self._address, self._headers, self._tls = address, headers, tls
        self._asks_to_resume, self._limit = resumes, limit
        self._persistence = Persistence(patience)
        self._loop = asyncio.get_running_loop()
        self._cookies = CookieJar()
        self._socket: _Socket | None = None
        self._id = ""  # what the server calls this connection
        self._resumes = False  # both ends can take it up again
        self._sent = Log()
        self._heard = Receipt()
        self._hear: Hear | None = None
        self._ended: Callable[[], None] | None = None
        self._early: list[bytes] = []  # arrived before anybody listened
        self._held = False
        self._taken = asyncio.Event()
        self._why: str | None = None  # the wire is gone, once it says so
        self._returning: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Reach the server; raises OSError or ConnectionClosed when it cannot be."""
        await self._dial()

    # The wire, as its user sees it

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended
        if self._early:
            hear([*self._early])
        if self._why is not None:
            self._loop.call_soon(ended)
        elif self._socket:
            self._socket.pause(self._held)

    def hold(self) -> None:
        self._held = True
        if self._socket:
            self._socket.pause(True)

    def resume(self) -> None:
        self._held = False
        if self._socket:
            self._socket.pause(False)

    def send(self, frames: list[bytes]) -> None:
        if self._why is not None:
            return
        if self._resumes:
            self._sent.append(frames)
        if self._socket:
            self._socket.send_texts(frames)

    @property
    def queued(self) -> int:
        if self._resumes:
            return self._sent.size
        return self._socket.transport.get_write_buffer_size() if self._socket else 0

    async def drain(self) -> None:
        room = ROOM if self._resumes else LOW_WATER
        while self._why is None and self.queued > room:
            self._taken.clear()
            await self._taken.wait()

    async def why_ended(self) -> Exception:
        return ConnectionClosed(self._why or "the connection is closed")

    async def close(self) -> None:
        """Say goodbye, if there is anybody to say it to, and let go of the socket."""
        if self._returning:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        self._end("we hung up")
        if self._socket:
            await self._socket.close()

    # What the socket reports

    def heard(self, frames: list[bytes], size: int) -> None:
        self._persistence.reward()
        if self._heard.add(len(frames), size):
            self.acknowledge()
        if self._hear:
            self._hear([*frames])
        else:
            self._early += frames

    def acknowledge(self) -> None:
        if self._resumes and self._heard.is_due and self._socket:
            self._socket.send_binary(b"%d" % self._heard.tell())

    def acknowledged(self, data: bytes) -> None:
        if self._resumes and data.isdigit():
            self._sent.forget(int(data))
            self._taken.set()

    def may_send(self) -> None:
        self._taken.set()

    def dropped(self, socket: "_Socket", code: int, reason: str) -> None:
        """The socket is gone: come back if both ends can, else it is over."""
        if socket is not self._socket:
            return
        self._socket = None
        if not self._resumes or code in FINAL_CODES:
            self._end(_goodbye(code, reason))
        elif self._why is None:
            log.info("the connection to %s dropped: %s", self._address.shown, _goodbye(code, reason))
            self._returning = self._loop.create_task(self._return(), name="reconnect")

    def _end(self, why: str) -> None:
        if self._why is not None:
            return
        self._why = why
        self._taken.set()
        if self._ended:
            self._ended()

    # Reaching the server

    async def _dial(self) -> None:
        socket = await open_socket(self._address, self._tls, ["http/1.1"], lambda: _Socket(self, self._limit))
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                response = await socket.shake_hands(self._address, self._request_headers())
        except BaseException:
            socket.abort()
            raise
        if socket.is_gone:
            raise ConnectionResetError(0, "it hung up")
        self._cookies.store(response.headers.get_all("Set-Cookie"))
        number = response.headers.get(LAST_EVENT, "")
        if not self._id:
            self._id = response.headers.get(CONNECTION, "")
            self._resumes = self._asks_to_resume and bool(self._id) and number == "0"
        elif not number.isdigit() or not self._sent.covers(int(number)):
            socket.abort()
            raise ConnectionClosed("the agent's server no longer knows what it has heard of us")
        else:
            self._sent.forget(int(number))
        self._socket = socket
        socket.send_texts(self._sent.frames())
        socket.pause(self._held or self._hear is None)
        self._taken.set()

    def _request_headers(self) -> list[tuple[str, str]]:
        headers = [*self._headers]
        if cookie := self._cookies.header:
            headers.append(("cookie", cookie))
        if self._id:
            headers.append((CONNECTION, self._id))
        if self._asks_to_resume:
            headers.append((LAST_EVENT, str(self._heard.tell())))
        return headers

    async def _return(self) -> None:
        try:
            await self._persistence.persist(self._dial)
        except (OSError, TimeoutError) as exc:
            why = f"the connection to {self._address.shown} dropped and could not be restored"
            self._end(f"{why} in {self._persistence.patience:g} s: {why_unreachable(exc)}")
        except ConnectionClosed as exc:
            self._end(str(exc))
        else:
            log.info("the connection to %s is back", self._address.shown)
        finally:
            self._returning = None


class _Socket(asyncio.Protocol):
    """One socket of such a wire, from its handshake to its drop."""

    transport: asyncio.Transport

    def __init__(self, wire: WebSocketTransport, limit: int) -> None:
        self._wire, self._limit = wire, limit
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Response] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._parts: list[bytes] = []  # of a message that comes in several frames
        self._paused = False
        self._heard_at = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self._protocol: ClientProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    async def shake_hands(self, address: Address, headers: list[tuple[str, str]]) -> Response:
        uri = WebSocketURI(address.is_secure, address.host, address.port, *_split(address.target))
        self._protocol = ClientProtocol(uri, max_size=self._limit, logger=protocol_log)
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
        texts: list[bytes] = []
        size = 0
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                if not self._opened.done() and self._protocol.handshake_exc is None:
                    self._opened.set_result(event)
            elif isinstance(event, Frame) and (text := self._whole(event)) is not None:
                texts.append(text)
                size += len(text)
        if self._protocol.handshake_exc is not None and not self._opened.done():
            self._opened.set_exception(_refusal(self._protocol.handshake_exc))
        if texts:
            self._wire.heard(texts, size)
        self._flush()

    def _whole(self, frame: Frame) -> bytes | None:
        """The text message a frame completes, if it does."""
        if frame.opcode is Opcode.TEXT and frame.fin:
            return bytes(frame.data)
        if frame.opcode is Opcode.TEXT or (frame.opcode is Opcode.CONT and self._parts):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                text, self._parts = b"".join(self._parts), []
                return text
        elif frame.opcode is Opcode.BINARY and frame.fin:
            self._wire.acknowledged(bytes(frame.data))
        return None

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
        data = self._protocol.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(b"".join(data))
            if data[-1] == SEND_EOF:
                self.transport.close()

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


def _goodbye(code: int, reason: str) -> str:
    if code in (1000, 1005):
        return "the agent hung up"
    if code == 1006:
        return "the connection dropped"
    if code == 1009:
        return f"a message was too large for the other side{reason and ': ' + reason}"
    return f"the connection was closed with code {code}{reason and ': ' + reason}"


async def dial_websocket(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    resumes: bool = True,
    limit: int = MAX_FRAME,
    patience: float = PATIENCE,
) -> WebSocketTransport:
    """A wire to the agent behind a ws:// or wss:// URL; raises AgentStartError when it cannot be reached."""
    address, sent = read_url(url, headers)
    wire = WebSocketTransport(address, sent, tls, resumes=resumes, limit=limit, patience=patience)
    try:
        await wire.open()
    except (OSError, TimeoutError) as exc:
        raise AgentStartError(f"cannot reach {address.shown}: {why_unreachable(exc)}") from None
    except ConnectionClosed as exc:
        raise AgentStartError(f"cannot reach {address.shown}: {exc}") from None
    return wire
