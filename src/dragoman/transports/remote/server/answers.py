"""Send answers through an ASGI server: short ones, event streams, and WebSockets in both directions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from ....errors import Error
from ....foundation.owning import Work
from ..replay import read_number, write_numbered
from ..routing import BINARY, failure, head_of
from ..sse import KEEP_ALIVE, in_ascii, write_end, write_events
from .accepted import AcceptedTransport
from .stream import StreamClaim

KEEP_ALIVE_EVERY = 15.0  # seconds
# Some HTTP/2 clients (httpx, and so the official SDK) notice data of one stream only when more data follows,
# because another of their streams waits at the socket.  They are sent a comment when the stream becomes quiet.
T = TypeVar("T")

QUIET = 0.05  # seconds
EVENTS = "text/event-stream"
DROPPED = 4409  # the close code of a WebSocket that was replaced by a newer one, or that lost a frame

Scope: TypeAlias = MutableMapping[str, Any]  # ASGI: the scope of a connection
Event: TypeAlias = MutableMapping[str, Any]  # and the type of its events
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class RequestRefused(Error):
    """A request that is refused with a status."""

    def __init__(
        self, status: int, why: str, headers: Mapping[str, str] | None = None, *, body: bytes | None = None
    ) -> None:
        self.status, self.headers = status, headers or {}
        self.body = msgspec.json.encode({"error": why}) if body is None else body
        super().__init__(why)


async def respond(send: Send, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
    """Answer at once."""
    sent = {"content-type": "application/json"} if body else {}
    sent |= {"content-length": str(len(body)), **(headers or {})}
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def refuse(scope: Scope, send: Send, refused: RequestRefused) -> None:
    """Refuse a request, of HTTP or WebSocket."""
    if scope["type"] == "http":
        await respond(send, refused.status, refused.body, refused.headers)
    elif "websocket.http.response" in (scope.get("extensions") or {}):
        headers = [(name.encode(), value.encode("latin-1")) for name, value in refused.headers.items()]
        headers.append((b"content-type", b"application/json"))
        start = {"type": "websocket.http.response.start", "status": refused.status, "headers": headers}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": refused.body})
    else:
        await send({"type": "websocket.close", "code": 1008})


async def stream_events(
    wire: AcceptedTransport, reader: StreamClaim, receive: Receive, send: Send, *, is_nudged: bool
) -> None:
    """Send a stream's frames as events until it is closed or the client disconnects."""
    headers = [
        (b"content-type", EVENTS.encode()),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
    async with _beside(_until_disconnected(receive)) as gone:
        writing = asyncio.ensure_future(_write_events(wire, reader, send, QUIET if is_nudged else KEEP_ALIVE_EVERY))
        async with _ending(writing):
            await asyncio.wait({writing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if writing.done() and not writing.cancelled() and writing.exception() is None:
            last = write_end(wire.reason) if wire.resumes and wire.is_over else b""
            await send({"type": "http.response.body", "body": last, "more_body": False})


async def converse(
    wire: AcceptedTransport, reader: StreamClaim, receive: Receive, send: Send, batches: bool
) -> int:
    """Carry frames both ways over an accepted WebSocket; returns its close code."""
    async with _beside(_hear_frames(wire, reader, receive)) as hearing:
        writing = asyncio.ensure_future(_write_frames(wire, reader, send, batches))
        async with _ending(writing):
            await asyncio.wait({writing, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done() and hearing.exception() is None:
            code: int = hearing.result()
            return code
        if hearing.done() or writing.exception() is not None:  # dropped, so that the client reconnects
            with contextlib.suppress(OSError):
                await send({"type": "websocket.close", "code": DROPPED})
            return DROPPED
        reason = {"reason": wire.reason} if wire.reason else {}
        await send({"type": "websocket.close", "code": wire.close_code, **reason})
        return wire.close_code


@contextlib.asynccontextmanager
async def _beside(coroutine: Work[T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run a task beside the block; it ends with the block."""
    task = asyncio.ensure_future(coroutine)
    async with _ending(task):
        yield task


@contextlib.asynccontextmanager
async def _ending(task: "asyncio.Future[T]") -> AsyncIterator[None]:
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write_events(wire: AcceptedTransport, reader: StreamClaim, send: Send, quiet: float) -> None:
    """Write waiting events, and a comment after each pause of this length."""
    silence = quiet
    while True:
        first, frames = reader.take()
        if frames:
            if not wire.resumes:
                frames = [in_ascii(frame) for frame in frames]
            await send({"type": "http.response.body", "body": write_events(frames, first), "more_body": True})
            wire.took(reader)
        elif reader.stream.is_closed:
            return
        else:
            try:
                async with asyncio.timeout(silence):
                    await reader.more()
                silence = quiet
            except TimeoutError:
                await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
                silence = KEEP_ALIVE_EVERY


async def _write_frames(wire: AcceptedTransport, reader: StreamClaim, send: Send, batches: bool) -> None:
    while True:
        if (number := reader.take_acknowledgement()) is not None:
            await send({"type": "websocket.send", "bytes": b"%d" % number})
        first, frames = reader.take()
        if frames:
            if wire.resumes:
                frames = write_numbered(frames, first)
            if batches:
                await send({"type": "websocket.send", "frames": frames})
            else:
                for frame in frames:
                    await send({"type": "websocket.send", "text": frame.decode()})
            wire.took(reader)
        elif reader.stream.is_closed:
            return
        else:
            await reader.more()


async def _hear_frames(wire: AcceptedTransport, reader: StreamClaim, receive: Receive) -> int:
    while True:
        event = await receive()
        reader.check()
        if event["type"] == "websocket.disconnect":
            return int(event.get("code") or 1005)
        frames = event.get("frames") or []
        if (text := event.get("text")) is not None:
            frames = [text.encode("utf-8", "surrogatepass")]
        if frames:
            wire.notice_numbers(frames[0])
        if frames and wire.resumes:
            wire.accept_numbered(frames)
        for frame in frames if not wire.resumes else ():
            await wire.accept(frame)
        data = event.get("bytes") or b""
        if wire.resumes and (number := read_number(data)) is not None:
            wire.acknowledged(number)
        elif not wire.resumes and (message := head_of(data)).is_request:  # it should have been a text frame
            wire.send([failure(message.id, -32600, f"the request {BINARY}")])
            await wire.drain()
