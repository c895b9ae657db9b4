"""The server's side of HTTP/2: any number of requests at a time on one socket."""

import asyncio
from typing import Any

import h2.events
import h2.exceptions

from ..http2 import Http2
from ..limits import SMALL
from .answers import Event, Scope
from .serving import HEAD_TIMEOUT, InPortions, Pairs, RequestBody, ServedApplication, http_scope, run

IDLE = 75.0  # seconds that a socket may be idle without a request
TAKEN_BACK = 20  # the cost of a request that is reset before its answer
# seconds; httpcore waits at the socket for a window update that another of its streams has already read
NUDGE = 0.05


class Http2Server(Http2, InPortions):
    def __init__(self, host: ServedApplication) -> None:
        InPortions.__init__(self, host)
        Http2.__init__(self, is_client=False)
        self._answers: dict[int, _Answer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._nudging: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(HEAD_TIMEOUT)

    def _expect(self, seconds: float | None) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self.transport.close)

    def handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=int(stream), headers=headers):
                self._begin(stream, headers or [])
            case h2.events.DataReceived(stream_id=int(stream), data=data, flow_controlled_length=size):
                if len(data or b"") < SMALL:
                    self.spend()
                if answer := self._answers.get(stream):
                    answer.feed(data or b"", size or 0)
                else:
                    self.acknowledge(stream, size or 0)
            case h2.events.StreamEnded(stream_id=int(stream)):
                if answer := self._answers.get(stream):
                    answer.body.end()
            case h2.events.StreamReset(stream_id=int(stream)):
                self._windows.set()
                if answer := self._answers.pop(stream, None):
                    answer.body.lose()
                self.spend(TAKEN_BACK if answer and not answer.is_begun else 1)
            case h2.events.ConnectionTerminated():
                self.transport.close()
            case _:  # pings, settings, windows, priorities: frames that concern the connection alone
                self.spend()

    def nudge_soon(self) -> None:
        """Make a client that may continue a body, but does not, look at its socket again."""
        if self._nudging:
            self._nudging.cancel()
        self._nudging = self._loop.call_later(NUDGE, self._nudge)

    def _nudge(self) -> None:
        if not self.is_gone and any(not answer.body.is_whole for answer in self._answers.values()):
            self._allowance.earn(1)  # the client has to answer a ping
            self._h2.ping(bytes(8))
            self._flush()

    def _begin(self, stream: int, headers: Any) -> None:
        pairs: Pairs = [(bytes(name), bytes(value)) for name, value in headers]
        special = {name: value for name, value in pairs if name.startswith(b":")}
        pairs = [pair for pair in pairs if not pair[0].startswith(b":")]
        if (authority := special.get(b":authority")) is not None:
            pairs = [(b"host", authority), *(pair for pair in pairs if pair[0] != b"host")]
        self._expect(None)
        method = special.get(b":method", b"GET").decode("latin-1")
        scope = http_scope(self._host, self.transport, "2", method, special.get(b":path", b"/"), pairs)
        answer = self._answers[stream] = _Answer(self, stream)
        self._host.start(self._run(answer, scope))

    async def _run(self, answer: "_Answer", scope: Scope) -> None:
        await run(self._host.app, scope, answer.body.receive, answer.send)
        if answer.is_over and answer.body.is_whole:
            self._answers.pop(answer.stream, None)
        else:
            self.drop(answer.stream)
        if not self._answers and not self.is_gone:
            self._expect(IDLE)

    def drop(self, stream: int) -> None:
        """End a request that is not waited for any longer."""
        if answer := self._answers.pop(stream, None):
            answer.body.lose()
            self.reset(stream)

    def send_headers(self, stream: int, status: int, headers: Pairs, *, ends: bool) -> None:
        pairs = [(b":status", b"%d" % status), *((name.lower(), value) for name, value in headers)]
        try:
            self._h2.send_headers(stream, pairs, end_stream=ends)
        except h2.exceptions.ProtocolError as exc:
            raise ConnectionResetError("the client no longer wants it") from exc
        self.sent()
        if ends:
            self._flush()

    def lose(self, exc: Exception) -> None:
        self._expect(None)
        if self._nudging:
            self._nudging.cancel()
        self._host.lost(self.transport)
        for answer in self._answers.values():
            answer.body.lose()


class _Answer:
    """One request's answer, as the application gives it."""

    def __init__(self, socket: Http2Server, stream: int) -> None:
        self.stream = stream
        self.body = RequestBody(self._took, lambda: socket.drop(stream))
        self.is_begun = self.is_over = False
        self._socket = socket
        self._head: tuple[int, Pairs] | None = None
        self._padding = 0  # padding bytes, which count for the window

    def feed(self, data: bytes, size: int) -> None:
        self._padding += size - len(data)
        self.body.feed(data)

    def _took(self, size: int) -> None:
        size, self._padding = size + self._padding, 0
        self._socket.acknowledge(self.stream, size)
        self._socket.nudge_soon()

    async def send(self, event: Event) -> None:
        if self._socket.is_gone:
            raise ConnectionResetError("the client has disconnected")
        if event["type"] == "http.response.start":
            self._head = event["status"], [(bytes(name), bytes(value)) for name, value in event["headers"]]
            return
        data, ends = event.get("body", b""), not event.get("more_body")
        is_short = ends and not data
        if self._head:
            (status, headers), self._head = self._head, None
            self.is_begun = True
            self._socket.send_headers(self.stream, status, headers, ends=is_short)
        elif is_short:
            await self._socket.send_data(self.stream, b"", ends=True)
        if data:
            await self._socket.send_data(self.stream, data, ends=ends)
        self.is_over = ends
