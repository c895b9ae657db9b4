"""The server's side of HTTP/1.1: requests one after the other on a socket, until one becomes a WebSocket."""

import asyncio

import h11

from ... import HIGH_WATER, LOW_WATER
from ..limits import SMALL, Allowance
from .answers import Event, Scope
from .heads import is_ambiguous, is_chunked, is_faulty
from .serving import BODY_ROOM, HEAD_TIMEOUT, InPortions, Pairs, RequestBody, ServedApplication, http_scope, run
from .websocket import WebSocketServer

MAX_HEAD = 64 * 1024
IDLE = 75.0  # seconds that a socket may be idle between two requests


class Http1Server(InPortions):
    transport: asyncio.Transport

    def __init__(self, host: ServedApplication) -> None:
        super().__init__(host)
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._answer: _Answer | None = None
        self._allowance = Allowance()
        self._is_ahead = False  # further requests arrived before this one was answered
        self._is_over = False  # nothing more will arrive, and all requests are answered
        self._in_head = False
        self._looked = 0  # bytes of the head that were checked
        self._paused = False
        self.writable = asyncio.Event()
        self.writable.set()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER // 4, low=LOW_WATER // 4)
        self._expect(HEAD_TIMEOUT)

    def _expect(self, seconds: float | None) -> None:
        """Close the socket unless a complete head arrives in time."""
        if self._timer:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self._answer is None and not self._in_head:
            self._in_head = True
            self._expect(HEAD_TIMEOUT)
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        """The client sends nothing more; if its request is complete, it may still wait for the answer."""
        answer, is_tls = (
            self._answer,
            self.transport.get_extra_info("sslcontext") is not None,
        )  # ends both directions
        self._is_over = answer is not None and answer.body.is_whole and not answer.is_stream and not is_tls
        if not self._is_over:
            self.transport.close()
        return self._is_over

    def _advance(self) -> None:
        """Handle the received bytes as far as they are complete."""
        try:
            while not self.transport.is_closing():
                self._look_at_head()
                event = self._http.next_event()
                if event is h11.PAUSED:
                    self._is_ahead = bool(self._http.trailing_data[0])
                    self._pace()
                    return
                if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                    return
                if isinstance(event, h11.Request):
                    self._in_head = False
                    self._expect(None)
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._feed(event)
                elif isinstance(event, h11.EndOfMessage) and self._answer:
                    self._answer.body.end()
                    if self._answer.is_deaf:
                        self._next()
        except h11.RemoteProtocolError as exc:
            self._refuse(exc.error_status_hint)

    def _look_at_head(self) -> None:
        """Refuse a head that a proxy in front of us may have read differently."""
        if self._http.their_state is h11.IDLE:
            unread, _ = self._http.trailing_data
            if is_faulty(unread, self._looked):
                raise h11.RemoteProtocolError(
                    "lines must end in CRLF and must not be folded", error_status_hint=400
                )
            self._looked = len(unread)

    def _feed(self, part: h11.Data) -> None:
        if part.chunk_end and len(part.data) < SMALL and not self._allowance.spend():
            self.transport.abort()
        elif self._answer and not self._answer.is_deaf:
            self._answer.body.feed(bytes(part.data))
            self._pace()

    def _begin(self, request: h11.Request) -> None:
        self._looked = 0
        headers = [(bytes(name), bytes(value)) for name, value in request.headers]
        if is_ambiguous(request.method, request.http_version, headers):
            raise h11.RemoteProtocolError("the body's length is ambiguous", error_status_hint=400)
        version, method = request.http_version.decode(), request.method.decode()
        scope = http_scope(self._host, self.transport, version, method, bytes(request.target), headers)
        if (b"upgrade", b"websocket") in [(name, value.lower()) for name, value in headers] and method == "GET":
            self._expect(None)
            rest, _ = self._http.trailing_data
            socket = WebSocketServer(self._host, scope)
            self.transport.set_protocol(socket)
            socket.connection_made(self.transport)
            if rest:
                socket.data_received(bytes(rest))
            return
        self._answer = _Answer(self, is_last=is_chunked(headers), is_stream=method == "GET")
        if self._http.they_are_waiting_for_100_continue:
            self.write(h11.InformationalResponse(status_code=100, headers=[]))
        self._host.start(self._run(self._answer, scope))

    async def _run(self, answer: "_Answer", scope: Scope) -> None:
        is_answered = await run(self._host.app, scope, answer.body.receive, answer.send)
        if self.transport.is_closing():
            return
        if not is_answered and not answer.is_begun:
            self._refuse(500)
        elif not answer.is_over:
            self.transport.close()
        elif answer.body.is_whole:
            self._next()
        else:  # answered before the request was complete: hanging up now would lose the answer
            answer.is_deaf = True
            self._expect(HEAD_TIMEOUT)
            self._pace()

    def _next(self) -> None:
        """Start the next request on the same socket, if one may follow."""
        self._answer = None
        is_over = self._is_over and not self._http.trailing_data[0]
        if is_over or self._http.our_state is h11.MUST_CLOSE or self._http.their_state is not h11.DONE:
            self.transport.close()
            return
        self._http.start_next_cycle()
        self._expect(IDLE)
        self._is_ahead = False
        self._pace()
        self._advance()

    def _refuse(self, status: int) -> None:
        """Answer a broken request, or one whose answer failed, and hang up."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            self.transport.write(self._http.send(h11.Response(status_code=status, headers=headers)) or b"")
        self.transport.close()

    def _pace(self) -> None:
        """Read no faster than the application; read no further request until the previous one is answered."""
        answer = self._answer
        waits = self._is_ahead or (answer is not None and answer.body.size > BODY_ROOM and not answer.is_deaf)
        if waits is not self._paused and not self.transport.is_closing():
            self._paused = waits
            (self.transport.pause_reading if waits else self.transport.resume_reading)()

    def took(self, _: int) -> None:
        self._pace()

    def write(self, *events: h11.Event) -> None:
        self.transport.write(b"".join(self._http.send(event) or b"" for event in events))

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self.writable.set()
        self._host.lost(self.transport)
        if self._answer:
            self._answer.body.lose()


class _Answer:
    """One request's answer, as the application gives it."""

    def __init__(self, socket: Http1Server, *, is_last: bool, is_stream: bool) -> None:
        self.body = RequestBody(socket.took, socket.transport.abort)
        self.is_begun = self.is_over = False
        self.is_stream = is_stream  # it lasts as long as the client is connected
        self.is_deaf = False  # the rest of the request is discarded
        self._socket = socket
        self._is_last = is_last  # the socket is closed after it
        self._head: h11.Response | None = None

    async def send(self, event: Event) -> None:
        if self._socket.transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        if event["type"] == "http.response.start":
            headers: Pairs = [(bytes(name), bytes(value)) for name, value in event["headers"]]
            if self._is_last:
                headers.append((b"connection", b"close"))
            self._head = h11.Response(status_code=event["status"], headers=headers)
            return
        events: list[h11.Event] = []
        if self._head:
            events.append(self._head)
            self.is_begun, self._head = True, None
        if data := event.get("body", b""):
            events.append(h11.Data(data=data))
        if not event.get("more_body"):
            events.append(h11.EndOfMessage())
            self.is_over = True
        self._socket.write(*events)
        await self._socket.writable.wait()
