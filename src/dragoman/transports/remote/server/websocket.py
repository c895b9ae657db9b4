"""The server's side of a WebSocket, from its opening request to its close."""

import asyncio
import contextlib
import logging
from base64 import b64decode
from collections import deque
from http import HTTPStatus

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.utils import accept_key

from ....framing import MAX_FRAME
from ... import HIGH_WATER, LOW_WATER
from ..addresses import PING_EVERY
from ..limits import SMALL, Allowance
from ..websocket_messages import Messages, write_out
from .answers import Event, Scope
from .serving import MAX_HELD, PORTION, InPortions, ServedApplication, run

log = logging.getLogger("dragoman.websocket")
log.setLevel(logging.INFO)  # below this level it would log every message

ROOM = 1024 * 1024  # bytes waiting for the application above which the client has to wait
WEIGHT = 64  # bytes of memory for a message besides its content
CLOSE_TIMEOUT = 1.0
# bytes waiting for the client; more than one message means that it sends pings and does not read
MAX_UNREAD = 2 * MAX_FRAME
_STATUSES = set(HTTPStatus)


class WebSocketServer(InPortions):
    transport: asyncio.Transport

    def __init__(self, host: ServedApplication, scope: Scope) -> None:
        super().__init__(host)
        self._loop = asyncio.get_running_loop()
        headers = dict(scope["headers"])
        self._key = headers.get(b"sec-websocket-key", b"").decode("latin-1")
        self._version = headers.get(b"sec-websocket-version", b"")
        self._connection = headers.get(b"connection", b"").lower()
        asked = headers.get(b"sec-websocket-protocol", b"").decode("latin-1")
        self._scope = {
            **scope,
            "type": "websocket",
            "scheme": "wss" if scope["scheme"] == "https" else "ws",
            "subprotocols": [name.strip() for name in asked.split(",") if name.strip()],
            "extensions": scope["extensions"] | {"websocket.http.response": {}, "dragoman.batch": {}},
        }
        del self._scope["method"]
        self._protocol = Protocol(Side.SERVER, state=State.OPEN, max_size=host.limit, logger=log)
        self._messages = Messages(self._protocol, self._tell_binary)
        self._allowance = Allowance()
        self._held = 0  # bytes of incomplete messages
        self._is_open = self._is_refused = self._takes_batches = False
        self._early = b""
        self._events: deque[tuple[Event, int]] = deque([({"type": "websocket.connect"}, 0)])
        self._size = 0  # their bytes
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER // 4, low=LOW_WATER // 4)
        if self._version != b"13":
            self._refuse(426, [(b"sec-websocket-version", b"13")])
        elif not _is_key(self._key) or b"upgrade" not in map(bytes.strip, self._connection.split(b",")):
            self._refuse(400, [])
        else:
            self._timer = self._loop.call_later(PING_EVERY, self._ping)
            self._host.start(self._run())

    async def _run(self) -> None:
        is_done = await run(self._host.app, self._scope, self._receive, self._send)
        if self.transport.is_closing():
            return
        if self._is_open:
            self._close(1000 if is_done else 1011)
        elif not self._is_refused:
            self._refuse(403 if is_done else 500, [])

    # The client's frames

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if not self._is_open:
            self._early += data
            if len(self._early) > ROOM:
                self.transport.abort()
            return
        self._protocol.receive_data(data)
        self._handle()
        self._hold(self._messages.held)

    def eof_received(self) -> None:
        if self._is_open:
            self._protocol.receive_eof()
            self._handle()
        self.transport.close()

    def _handle(self) -> None:
        frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
        if texts := self._messages.take(frames):
            self._tell_texts(texts)
        for frame in frames:
            if (frame.opcode >= Opcode.CLOSE or len(frame.data) < SMALL) and not self._allowance.spend():
                self._protocol.fail(CloseCode.POLICY_VIOLATION, "too many empty frames")
                break
        self._flush()

    def _hold(self, size: int) -> None:
        """Count the bytes of an incomplete message, and refuse too many of all clients together."""
        self._host.held += size - self._held
        self._held = size
        if self._host.held > MAX_HELD and size > PORTION:
            self._protocol.fail(CloseCode.TRY_AGAIN_LATER, "too many bytes are being received at once; try again")
            self._flush()

    def _tell_texts(self, texts: list[bytes]) -> None:
        if self._takes_batches:
            self._tell({"type": "websocket.receive", "frames": texts}, sum(map(len, texts)) + len(texts) * WEIGHT)
            return
        for text in texts:
            self._tell({"type": "websocket.receive", "text": text.decode()}, len(text) + WEIGHT)

    def _tell_binary(self, data: bytes) -> None:
        self._tell({"type": "websocket.receive", "bytes": data}, len(data) + WEIGHT)

    def _tell(self, event: Event, weight: int) -> None:
        self._events.append((event, weight))
        self._size += weight
        self._changed.set()
        self._pace()

    def _pace(self) -> None:
        """Read no faster than the application."""
        waits = self._size > ROOM
        if waits is not self._paused and not self.transport.is_closing():
            self._paused = waits
            self._heard_at = self._loop.time()
            (self.transport.pause_reading if waits else self.transport.resume_reading)()

    async def _receive(self) -> Event:
        while not self._events:
            self._changed.clear()
            await self._changed.wait()
        event, weight = self._events[0]
        if event["type"] != "websocket.disconnect":  # the disconnect is reported each time the application asks
            self._events.popleft()
            self._size -= weight
            self._pace()
        return event

    # The application's messages

    async def _send(self, event: Event) -> None:
        if self.transport.is_closing() or (self._is_open and self._protocol.state is not State.OPEN):
            raise ConnectionResetError("the client has disconnected")
        match event["type"]:
            case "websocket.accept":
                self._accept(event)
            case "websocket.close" if self._is_open:
                self._close(event.get("code", 1000), event.get("reason") or "")
            case "websocket.close":
                self._refuse(403, [])
            case "websocket.http.response.start":
                self._is_refused = True
                self._write_head(event["status"], [*event["headers"], (b"connection", b"close")])
            case "websocket.http.response.body":
                self.transport.write(event.get("body", b""))
                if not event.get("more_body"):
                    self.transport.close()
            case "websocket.send":
                self._send_message(event)
                await self._writable.wait()

    def _send_message(self, event: Event) -> None:
        if (frames := event.get("frames")) is not None:
            for frame in frames:
                self._protocol.send_text(frame)
        elif (text := event.get("text")) is not None:
            self._protocol.send_text(text.encode())
        else:
            self._protocol.send_binary(event["bytes"])
        self._flush()

    def _accept(self, event: Event) -> None:
        headers = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", accept_key(self._key).encode()),
            *event.get("headers", ()),
        ]
        if chosen := event.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", chosen.encode("latin-1")))
        self._write_head(101, headers)
        self._is_open, self._takes_batches = True, bool(event.get("dragoman.batch"))
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def _refuse(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._is_refused = True
        self._write_head(status, [*headers, (b"content-length", b"0"), (b"connection", b"close")])
        self.transport.close()

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if status in _STATUSES else ''}".encode()]
        lines += [b"%b: %b" % pair for pair in headers]
        self.transport.write(b"\r\n".join([*lines, b"", b""]))

    def _close(self, code: int, reason: str = "") -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
            self._flush()
            self._loop.call_later(CLOSE_TIMEOUT, self.transport.close)

    def _flush(self) -> None:
        write_out(self._protocol, self.transport)
        if self.transport.get_write_buffer_size() > MAX_UNREAD:
            self.transport.abort()

    def _ping(self) -> None:
        self._timer = self._loop.call_later(PING_EVERY, self._ping)
        if self._loop.time() - self._heard_at > 2 * PING_EVERY and not self._paused:
            self.transport.abort()
        elif self._is_open and self._protocol.state is State.OPEN:
            self._protocol.send_ping(b"")
            self._flush()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        self._writable.set()
        self._host.lost(self.transport)
        self._host.held -= self._held
        self._held = 0
        close = self._protocol.close_rcvd
        self._tell({"type": "websocket.disconnect", "code": close.code if close else 1006}, 0)


def _is_key(key: str) -> bool:
    with contextlib.suppress(ValueError):
        return len(b64decode(key, validate=True)) == 16
    return False
