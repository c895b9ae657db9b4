"""The servers of `hostile_servers`, in every form of HTTP and over both of its versions.

A form with a stream for what the agent says may answer there what a POST's answer leaves open (`PROMISED`).  A form
with a log is sent a message again that was not taken (`SENT_AGAIN`), and takes it then.
"""

import asyncio
import contextlib

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h11

from .foreign import GREETING, Request, answer, response, result_of, told
from .hostile_servers import POSTS, STREAMS, Server, StreamServer, chunk, events, good

PROMISED = {
    "no content",
    "nothing",
    "accepted and never answered",
    "an answer to another",
    "events without an answer",
}
SENT_AGAIN = {
    "an error page",
    "brotli",
    "broken gzip",
    "gzip in many parts",
    "a bomb",
    "a chunk of no size",
    "no HTTP",
    "two lengths",
    "a head without end",
    "a header of a mebibyte",
    "hints without end",
    "switching protocols",
    "trailers without end",
    "busy_at_first",
} | {name for name in POSTS if name.startswith("cut")}

NOT_OVER_HTTP2 = {"a header of a mebibyte"}  # to pack it takes the server minutes


class EventsServer(StreamServer):
    """Has one stream, which says where to post."""

    async def handle(self, request, writer):
        if request.method == "POST" and not self.streams:
            writer.write(response(status="405 Method Not Allowed"))
        else:
            await super().handle(request, writer)

    async def open_stream(self, request, writer):
        await super().open_stream(request, writer)
        writer.write(chunk(b"event: endpoint\ndata: /acp?of=events\n\n"))

    async def answer(self, request, writer):
        writer.write(response(status="202 Accepted"))
        self.say(answer(request, result_of(request.message["method"])))


class LogServer(StreamServer):
    """Keeps what it says, numbered, and says it again to whoever has not heard it; takes a message once."""

    def __init__(self, odd):
        super().__init__(odd)
        self._log, self.taken = [], 0

    async def handle(self, request, writer):
        number = int(request.headers.get("idempotency-key", '"0"').strip('"'))
        if request.method == "POST" and not request.body:  # it says how far it has heard us
            writer.write(response(status="202 Accepted"))
        elif number > self.taken + 1:
            writer.write(response(status="409 Conflict"))
        elif number and number <= self.taken:
            writer.write(response(status="202 Accepted"))
            self.say(told("hello"), good(request))
        else:
            self.taken = number or self.taken
            await super().handle(request, writer)

    async def open_stream(self, request, writer):
        await super().open_stream(request, writer)
        for event in self._log[int(request.headers["last-event-id"]) :]:
            writer.write(chunk(event))

    async def answer(self, request, writer):
        if request.message["method"] == "initialize":
            writer.write(response(answer(request, GREETING), acp_connection_id="c1", last_event_id="0"))
        else:
            await super().answer(request, writer)

    def say(self, *messages):
        for message in messages:
            self._log.append(b"id: %d\n%b" % (len(self._log) + 1, events(message)))
            if None in self.streams:
                self.streams[None].write(chunk(self._log[-1]))


def with_promise(odd, says):
    async def promising(server, request, writer):
        await odd(server, request, writer)
        server.say(*([] if says else [told("hello")]), good(request))

    return promising


# HTTP/2


class Answer2:
    """An answer over HTTP/2, written as one of HTTP/1.1: what is broken in that is taken back in this."""

    def __init__(self, socket, stream, method):
        self._socket, self._stream = socket, stream
        self._http1 = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**17)
        for event in (h11.Request(method=method, target="/", headers=[("host", "x")]), h11.EndOfMessage()):
            self._http1.send(event)
        self.queue = bytearray()
        self.room = asyncio.Event()
        self._is_whole = self._is_over = False
        self.transport = self  # for whoever aborts it

    def write(self, data):
        if not data:
            return  # which would be the end
        try:
            self._http1.receive_data(data)
            while not self._is_whole and (event := self._http1.next_event()) is not h11.NEED_DATA:
                self._pass_on(event)
        except h11.RemoteProtocolError:
            self.close()

    def _pass_on(self, event):
        if isinstance(event, h11.Response | h11.InformationalResponse):
            kept = [pair for pair in event.headers if pair[0] not in (b"transfer-encoding", b"connection")]
            self._tell(lambda h: h.send_headers(self._stream, [(b":status", b"%d" % event.status_code), *kept]))
        elif isinstance(event, h11.Data):
            self.queue += event.data
        elif isinstance(event, h11.EndOfMessage):
            self._is_whole = True
        self.flush()

    def flush(self):
        """Send what the client has room for."""
        http = self._socket.http
        with contextlib.suppress(h2.exceptions.ProtocolError):
            while self.queue and (size := http.local_flow_control_window(self._stream)):
                part = self.queue[: min(size, http.max_outbound_frame_size)]
                del self.queue[: len(part)]
                self._tell(lambda h, part=part: h.send_data(self._stream, bytes(part)))
        if self._is_whole and not self.queue and not self._is_over:
            self._is_over = True
            self._tell(lambda h: h.end_stream(self._stream))
        self.room.set()

    def _tell(self, step):
        with contextlib.suppress(h2.exceptions.ProtocolError):  # the client has taken its request back
            step(self._socket.http)
        self._socket.flush()

    async def drain(self):
        while len(self.queue) > 65536:
            self.room.clear()
            await self.room.wait()

    def close(self):
        if not self._is_over:
            self._is_over = self._is_whole = True
            self.queue.clear()
            self._tell(lambda h: h.reset_stream(self._stream))

    abort = close


class Socket2:
    """A server's socket of HTTP/2, each request of which `server.handle` answers."""

    def __init__(self, server, writer):
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
        )
        self._server, self._writer = server, writer
        self._heads, self._bodies, self._answers, self._tasks = {}, {}, {}, set()

    def flush(self):
        self._writer.write(self.http.data_to_send())

    async def run(self, reader):
        self.http.initiate_connection()
        self.flush()
        try:
            while data := await reader.read(65536):
                for event in self.http.receive_data(data):
                    self._take(event)
                self.flush()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, event):
        match event:
            case h2.events.RequestReceived(stream_id=stream, headers=headers):
                self._heads[stream], self._bodies[stream] = dict(headers), b""
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=size):
                self._bodies[stream] += data
                self.http.acknowledge_received_data(size, stream)
            case h2.events.StreamEnded(stream_id=stream):
                head = self._heads.pop(stream)
                request = Request(head[":method"], head[":path"], head, self._bodies.pop(stream))
                self._answers[stream] = Answer2(self, stream, request.method)
                self._tasks.add(asyncio.create_task(self._server.handle(request, self._answers[stream])))
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                for told_answer in self._answers.values():
                    told_answer.flush()


class Reluctant(Socket2):
    """Takes the beginning of a body, and as much again each time `more` says so."""

    def __init__(self, server, writer, more):
        super().__init__(server, writer)
        self._more = more

    async def run(self, reader):
        self.http.increment_flow_control_window(2**25)  # one body must not hold up the others
        await super().run(reader)

    def _take(self, event):
        if isinstance(event, h2.events.DataReceived) and not event.stream_ended:
            self._bodies[event.stream_id] += event.data
            if self.http.remote_flow_control_window(event.stream_id) == 0:
                self._tasks.add(asyncio.create_task(self._open_window(event.stream_id)))
        else:
            super()._take(event)

    async def _open_window(self, stream):
        await self._more()
        self.http.increment_flow_control_window(65535, stream)
        self.flush()


def over_http2(make):
    def made():
        server = make()

        async def serve(reader, writer):
            await Socket2(server, writer).run(reader)

        return serve

    return made


# All of them


def cases():
    """Each server: its name, what makes it, the outcome and what is heard."""
    for name, (make, outcome, says) in STREAMS.items():
        yield f"draft: {name}", make, outcome, says
        yield f"draft over HTTP/2: {name}", over_http2(make), outcome, says
    for name, (odd, outcome, says) in POSTS.items():
        for form, cls in FORMS.items():
            promises = cls is not Server and name in PROMISED
            again = cls is LogServer and name in SENT_AGAIN
            answered = with_promise(odd, says) if promises else odd

            def make(cls=cls, answered=answered):
                return cls(answered)

            if form.endswith("HTTP/2") and name in NOT_OVER_HTTP2:
                continue
            if form.endswith("HTTP/2"):
                make = over_http2(make)
            recovers = promises or again
            yield f"{form}: {name}", make, "end_turn" if recovers else outcome, recovers or says


FORMS = {
    "older": Server,
    "older over HTTP/2": Server,
    "events": EventsServer,
    "draft": StreamServer,
    "draft over HTTP/2": StreamServer,
    "log": LogServer,
    "log over HTTP/2": LogServer,
}
