"""An agent on the web: one endpoint for WebSocket and Streamable HTTP, for any ASGI server.

`endpoint(app)` is an ASGI application.  Beyond the draft, events carry ids and `Last-Event-ID` resumes a stream; a
client that requests it when it connects gets everything on one stream and can resume a dropped connection.
"""

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import TYPE_CHECKING, TypedDict, Unpack

from ....envelope import NULL, read_envelope
from ....framing import MAX_FRAME
from ... import Transport
from ..addresses import CONNECTION, GENERATION, LAST_EVENT, SESSION
from ..routing import MessageHead, failure
from .accepted import HUNG_UP, AcceptedTransport, WebRequest
from .answers import EVENTS, Receive, RequestRefused, Scope, Send, converse, refuse, respond, stream_events
from .requests import Bodies, acknowledge, invalid, is_new, read_message, taken_up
from .shutdown import when_stopped

if TYPE_CHECKING:
    from ....agent.apps import App

log = logging.getLogger("dragoman")

GRACE = 180.0  # seconds a client may be away before its connection is ended
INITIALIZE_TIMEOUT = 30.0
MAX_ID = 1024
MAX_CONNECTIONS = 4096

Serve = Callable[[AcceptedTransport], Awaitable[None]]
Admit = Callable[[WebRequest], Awaitable[Hashable]]

JSON = "application/json"
SHUTTING_DOWN = "the server is shutting down"


class EndpointOptions(TypedDict, total=False):
    """Who may use an endpoint, and its limits."""

    # returns the owner of a request, or raises `RequestRefused`; a connection belongs to the owner who opened it
    admit: Admit | None
    origins: Collection[str]  # the origins of web pages that may connect
    hosts: Collection[str] | None  # the only Host names that are answered, if given
    grace: float  # seconds a client may be away before its connection is ended
    limit: int  # bytes of a message
    connections: int  # connections at the same time


class Endpoint:
    """The ASGI application; `serve` is run for each client that connects, with its transport.

    To anyone but its owner, a connection is indistinguishable from a missing one.
    """

    def __init__(
        self,
        serve: Serve,
        *,
        admit: Admit | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] | None = None,
        grace: float = GRACE,
        limit: int = MAX_FRAME,
        connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.origins, self.hosts = origins, hosts
        self._serve, self._admit, self._grace = serve, admit, grace
        self._connections = connections
        self._wires: dict[str, AcceptedTransport] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._bodies = Bodies(limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            raise ValueError(f"an agent is not served over {scope['type']}")
        request = read_request(scope)
        try:
            principal = await self._check(request)
            if scope["type"] == "websocket":
                await self._serve_websocket(request, principal, receive, send)
            else:
                await self._handle(request, principal, receive, send)
        except RequestRefused as refused:
            await refuse(scope, send, refused)

    async def close(self) -> None:
        """End every connection."""
        for wire in list(self._wires.values()):
            wire.end(SHUTTING_DOWN)
        if self._running:
            await asyncio.wait(self._running)

    # The owner of a request

    async def _check(self, request: WebRequest) -> Hashable:
        if self.hosts is not None and request.headers.get("host") not in self.hosts:
            raise RequestRefused(421, "this server does not answer to that host name")
        origin = request.headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise RequestRefused(403, "this page may not connect")
        return await self._admit(request) if self._admit else None

    def _known(self, request: WebRequest, principal: Hashable) -> AcceptedTransport:
        id = request.headers.get(CONNECTION)
        if not id:
            raise RequestRefused(400, "Acp-Connection-Id is missing")
        if len(id) > MAX_ID:
            raise RequestRefused(400, "Acp-Connection-Id is too long")
        wire = self._wires.get(id)
        if wire is None or wire.principal != principal or wire.is_over:
            raise RequestRefused(404, "there is no such connection")
        wire.principal = principal  # the newest credential counts, for it may expire later
        wire.seen()
        return wire

    def _accept(self, request: WebRequest, principal: Hashable, *, is_one: bool) -> AcceptedTransport:
        """Open a new connection and start its agent."""
        if len(self._wires) >= self._connections:
            raise RequestRefused(503, "too many clients are connected", {"retry-after": "5"})
        resumes = request.headers.get(LAST_EVENT) == "0" and (not is_one or GENERATION in request.headers)
        wire = AcceptedTransport(
            os.urandom(16).hex(),
            request,
            principal,
            resumes=resumes,
            is_one=is_one or resumes,
            grace=self._grace if resumes or not is_one else 0,
        )
        self._wires[wire.id] = wire
        running = asyncio.create_task(self._run(wire), name="agent")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return wire

    async def _run(self, wire: AcceptedTransport) -> None:
        try:
            with ended_when_stopped(wire):
                await self._serve(wire)
        except Exception:
            log.exception("the agent of a remote client failed")
        finally:
            await wire.close()
            del self._wires[wire.id]

    # HTTP

    async def _handle(self, request: WebRequest, principal: Hashable, receive: Receive, send: Send) -> None:
        match request.method:
            case "POST":
                await self._post(request, principal, receive, send)
            case "GET":
                await self._stream(request, principal, receive, send)
            case "DELETE":
                self._known(request, principal).end("the client ended the connection")
                await respond(send, 202)
            case _:
                raise RequestRefused(405, "only POST, GET and DELETE are used", {"allow": "POST, GET, DELETE"})

    async def _post(self, request: WebRequest, principal: Hashable, receive: Receive, send: Send) -> None:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestRefused(415, "the body has to be application/json")
        opens = CONNECTION not in request.headers
        wire = None if opens else self._known(request, principal)
        frame = await self._bodies.read(receive)
        if wire is not None and not frame:
            acknowledge(wire, request)
            is_new(wire, request)  # in place of a refused message, whose number is used up
            await respond(send, 202)
            return
        message = read_message(frame)
        if wire is None:
            await self._initialize(frame, message, request, principal, send)
            return
        if message.method == "initialize":
            raise invalid(400, message, "the connection is initialized already")
        named = request.headers.get(SESSION)
        if named is not None and message.session not in (None, named):
            raise invalid(400, message, "Acp-Session-Id is not the session of the message")
        wire.expects(message, named is not None)
        acknowledge(wire, request)
        if is_new(wire, request):
            await wire.accept(frame)
        await respond(send, 202)
        wire.streams[None].wake()

    async def _initialize(
        self, frame: bytes, message: MessageHead, request: WebRequest, principal: Hashable, send: Send
    ) -> None:
        if message.method != "initialize" or not message.is_request:
            raise invalid(400, message, "the connection has to be initialized first")
        wire = self._accept(request, principal, is_one=False)
        wire.answered = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(INITIALIZE_TIMEOUT):
                await wire.accept(frame)
                answer = await wire.answered
        except TimeoutError:
            wire.end("the agent did not answer initialize")
            raise RequestRefused(504, "the agent did not answer in time") from None
        except asyncio.CancelledError:
            if not wire.is_over:
                raise
            body = failure(message.id, -32603, "the agent could not be started")
            raise RequestRefused(500, "the agent could not be started", body=body) from None
        if read_envelope(answer).error != NULL:
            wire.end("the handshake failed")  # the next attempt opens a new connection
            await respond(send, 200, answer)
        else:
            resumption = {LAST_EVENT: "0"} if wire.resumes else {}
            await respond(send, 200, answer, {CONNECTION: wire.id, **resumption})

    async def _stream(self, request: WebRequest, principal: Hashable, receive: Receive, send: Send) -> None:
        if request.headers.get("upgrade", "").lower() == "websocket":
            raise RequestRefused(426, "this server does not offer WebSocket here", {"upgrade": "websocket"})
        accepted = request.headers.get("accept", "")
        if EVENTS not in accepted and "*/*" not in accepted and "text/*" not in accepted:
            raise RequestRefused(406, "the answer is text/event-stream")
        wire = self._known(request, principal)
        session = None if wire.is_one else request.headers.get(SESSION)
        if session is not None and len(session) > MAX_ID:
            raise RequestRefused(400, "Acp-Session-Id is too long")
        reader = taken_up(wire, session, request)
        try:
            is_nudged = not wire.resumes and request.scope.get("http_version") == "2"
            with ended_when_stopped(wire):
                await stream_events(wire, reader, receive, send, is_nudged=is_nudged)
        finally:
            wire.detach(reader)

    # WebSocket

    async def _serve_websocket(
        self, request: WebRequest, principal: Hashable, receive: Receive, send: Send
    ) -> None:
        await receive()  # websocket.connect
        if CONNECTION in request.headers:
            wire = self._known(request, principal)
            if not wire.resumes:
                raise RequestRefused(404, "there is no such connection")
            reader = taken_up(wire, None, request)
        else:
            wire = self._accept(request, principal, is_one=True)
            reader = wire.attach(None, 1)
        headers = [(CONNECTION.encode(), wire.id.encode())]
        if wire.resumes:
            headers.append((LAST_EVENT.encode(), b"%d" % wire.heard.tell()))
            headers.append((GENERATION.encode(), b"%d" % reader.stream.generation))
        code = 1006
        silence = asyncio.get_running_loop().call_later(INITIALIZE_TIMEOUT, wire.expect_word)
        try:
            await send({"type": "websocket.accept", "headers": headers, "dragoman.batch": True})
            batches = "dragoman.batch" in (request.scope.get("extensions") or {})
            with ended_when_stopped(wire):
                code = await converse(wire, reader, receive, send, batches)
        finally:
            silence.cancel()
            wire.detach(reader)
            if not wire.resumes or code == HUNG_UP:
                wire.end("the client hung up")

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.shutdown":
                await self.close()
            await send({"type": event["type"] + ".complete"})
            if event["type"] == "lifespan.shutdown":
                return


def ended_when_stopped(wire: AcceptedTransport) -> contextlib.AbstractContextManager[None]:
    """While the block runs, a server that is told to stop ends the connection first."""
    return when_stopped(functools.partial(wire.end, SHUTTING_DOWN))


def endpoint(app: "App", **options: Unpack[EndpointOptions]) -> Endpoint:
    """An agent as an ASGI application; each client that connects gets an agent of its own."""
    from ....agent.serving import serve_on

    async def serve(wire: Transport) -> None:
        await serve_on(app, wire)

    return Endpoint(serve, **options)


def read_request(scope: Scope) -> WebRequest:
    """The headers and target of a request; a repeated header counts as empty if a decision depends on it."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        once = name in headers and name in ("host", "origin", CONNECTION, SESSION, LAST_EVENT, "authorization")
        headers[name] = "" if once else value
    peer, user = scope.get("client"), (scope.get("extensions") or {}).get("peer_credentials")
    return WebRequest(
        scope.get("method", "GET"),
        scope["path"],
        headers,
        scope.get("query_string", b"").decode("latin-1"),
        peer[0] if peer else f"uid {user.uid}" if user else "",
        scope.get("scheme") in ("https", "wss"),
        scope,
    )
