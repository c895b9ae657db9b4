"""The draft's form of HTTP: a connection id, one event stream for the connection and one for each session.

A server that keeps a log sends everything on the connection's stream, numbered.  The stream is opened again
whenever it drops, and continues where it left off.  POSTs are numbered too, so that one whose answer was lost can
be sent again.  With any other server, the end of the connection's stream ends the connection, and the end of a
session's stream fails the requests that wait on it.
"""

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING

from ....errors import ConnectionClosed
from ....framing import Oversize
from ..addresses import (
    CONNECTION,
    GENERATION,
    LAST_EVENT,
    LAST_WORDS,
    LONGEST_PAUSE,
    SESSION,
    SHORTEST_PAUSE,
    SILENCE,
    TEMPORARY,
    Persistence,
    why_unreachable,
)
from ..replay import OutOfOrder, Receipt, read_number
from ..routing import MessageHead, Withdrawal, failure, head_of
from ..sse import END, Event
from .event_stream import ENDED, EventStream
from .exchange import ACCEPTS, JSON, Headers, can_be_named
from .numbered import NumberedPosts
from .post import Posts

if TYPE_CHECKING:
    from .http import HttpTransport

log = logging.getLogger("dragoman")

GONE = {401, 403, 404, 410}
SETTLING = 0.1  # seconds after the end of one stream in which the end of all streams may show
MAX_STREAMS = 64  # event streams opened because the server named a session; our own requests may open more
MAX_ASKED = 4096  # requests whose session is remembered


class StreamsForm:
    def __init__(self, wire: "HttpTransport", id: str, *, resumes: bool) -> None:
        self._wire = wire
        self._id = id
        self._resumes = resumes
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str | None, EventStream] = {}
        self._following: asyncio.Task[None] | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._posts = Posts(wire, promises=True, forget=lambda id: self._ours.pop(id, None))
        self._heard = Receipt()
        self._numbered = NumberedPosts(self._posts, self._heard, self._hear_answer, wire.patience)
        self._generation = 0  # the number of the newest attempt to read the connection's stream
        self._persistence = Persistence(wire.patience)
        self._acknowledging: asyncio.Task[None] | None = None
        self._ours: dict[bytes, str] = {}  # requests that wait for an answer, and their sessions
        self._theirs: dict[bytes, str] = {}  # requests of the agent, and their sessions

    async def open(self) -> None:
        """Open the connection's stream."""
        if self._resumes:
            self._following = self._loop.create_task(self._follow(), name="events")
        else:
            await self._open_stream(None)

    @property
    def unsettled(self) -> int:
        return self._posts.unsettled

    def withdraw(self, wanted: Withdrawal) -> bool:
        return (self._numbered if self._resumes else self._posts).withdraw(wanted)

    def hold(self, held: bool) -> None:
        self._posts.hold(held)
        for stream in self._streams.values():
            stream.pause(held)

    async def close(self) -> None:
        for task in (self._following, self._acknowledging, *self._opening):
            if task:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._posts.close()
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._wire.link.ask("DELETE", [(CONNECTION, self._id)], timeout=LAST_WORDS)

    # Posting

    async def post(self, frame: bytes) -> None:
        message = head_of(frame)
        session = message.session or (self._theirs.pop(message.id, None) if message.is_answer else None)
        headers: Headers = [JSON, ACCEPTS, (CONNECTION, self._id), *_naming(session)]
        if not self._resumes:
            await self._deliver(frame, headers, session)
        else:
            refused = functools.partial(self._refused, session)
            await self._numbered.deliver(frame, headers, refused)

    def _hear_answer(self, events: list[Event]) -> None:
        """Handle the messages in the answer to a POST."""
        if not self._resumes:
            for event in events:
                self._look_at(event.data, None)
        self._wire.heard_events(events)

    async def _deliver(self, frame: bytes, headers: Headers, session: str | None) -> None:
        def refused(message: MessageHead, status: int, body: bytes) -> None:
            if status == 404 and session and message.is_request and message.method in OPENING:
                # Some servers answer that a session is unknown until they have opened it.
                again = self._deliver(frame, [pair for pair in headers if pair[0] != SESSION], None)
                task = self._loop.create_task(again, name="post")
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
                return
            self._refused(session, message, status, body)

        async def ready() -> bool:
            message = head_of(frame)
            if session and not await self._has_stream(session, message):
                return False
            if session and message.is_request and len(self._ours) < MAX_ASKED:
                self._ours[message.id] = session
            return True

        await self._posts.deliver(frame, headers, self._hear_answer, refused=refused, ready=ready)

    def _refused(self, session: str | None, message: MessageHead, status: int, body: bytes) -> None:
        unknown_session = status == 404 and session is not None and b"session" in body.lower()
        if status in GONE and not unknown_session:
            self._wire.end(f"{ENDED} (status {status})")
            return
        self._ours.pop(message.id, None)
        self._wire.refused(message, status, body)

    # Receiving

    def _hear_events(self, stream: EventStream, session: str | None, events: list[Event]) -> None:
        frames: list[bytes | Oversize] = []
        size = 0
        over = None
        for event in events:
            if self._resumes and event.kind == END:
                over = ENDED if isinstance(event.data, Oversize) else event.data.decode(errors="replace") or ENDED
                break
            if self._resumes and not self._is_next(stream, event):
                continue
            frames.append(event.data)
            size += len(event.data) if isinstance(event.data, bytes) else event.data.size
            if not self._resumes:
                self._look_at(event.data, session)
        if frames:
            self._persistence.note_success()
            due = self._heard.add(size)
            self._wire.heard(frames)
            if due and self._resumes and self._acknowledging is None:
                self._acknowledging = self._loop.create_task(self._acknowledge(), name="acknowledge")
        if over:
            self._wire.end(over)

    def _is_next(self, stream: EventStream, event: Event) -> bool:
        """Whether an event is the next in the log; at a gap the stream is opened again."""
        try:
            return self._heard.admit(read_number(event.id or b""))
        except OutOfOrder as gap:
            log.info("requesting the events of %s again: %s", self._wire.link.address.shown, gap)
            stream.close()
            return False

    def _look_at(self, frame: bytes | Oversize, session: str | None) -> None:
        """Note the requests and sessions that a frame names; open the stream of a new session."""
        message = head_of(frame)
        if message.is_answer:
            self._ours.pop(message.id, None)
        elif message.is_request and (of := session or message.session) and len(self._theirs) < MAX_ASKED:
            self._theirs[message.id] = of
        opened = message.opened or (message.session if session is None else None)
        is_unread = opened is not None and opened not in self._streams and can_be_named(opened)
        if opened and is_unread and len(self._streams) + len(self._opening) < MAX_STREAMS:
            task = self._loop.create_task(self._open_quietly(opened), name="events")
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _acknowledge(self) -> None:
        """Acknowledge the events received, apart from the POSTs, which may have to wait for their turn.

        The server may send nothing more until this arrives.  So it is sent again if it fails, and also if more
        events arrived meanwhile, because no later event may remind us.
        """
        pause = SHORTEST_PAUSE
        try:
            while self._heard.is_overdue:
                received = self._heard.received
                headers = [JSON, (CONNECTION, self._id), (LAST_EVENT, str(self._heard.count))]
                with contextlib.suppress(OSError, TimeoutError):
                    reply, _ = await self._wire.link.ask("POST", headers, timeout=SILENCE)
                    if reply.is_good:
                        self._heard.note_acknowledged(received)
                        continue
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._acknowledging = None

    # Streams

    async def _follow(self) -> None:
        """Keep the connection's stream open."""
        try:
            while True:
                stream = await self._persistence.persist(self._take_up)
                await stream.ended
        except (OSError, TimeoutError) as exc:
            why = f"the connection to {self._wire.link.address.shown} dropped and could not be restored"
            self._wire.end(f"{why} in {self._wire.patience:g} s: {why_unreachable(exc)}")
        except ConnectionClosed as exc:
            self._wire.end(str(exc))
        except Exception as exc:
            log.exception("reading from %s failed", self._wire.link.address.shown)
            self._wire.end(f"reading from {self._wire.link.address.shown} failed: {exc}")

    async def _take_up(self) -> EventStream:
        self._generation += 1
        place = [(LAST_EVENT, str(self._heard.tell())), (GENERATION, str(self._generation))]
        return await self._get(None, [(CONNECTION, self._id), *place])

    async def _get(self, session: str | None, headers: Headers) -> EventStream:
        """Open a stream; raises OSError if another attempt may succeed, else ConnectionClosed."""
        stream = EventStream(lambda events: self._hear_events(stream, session, events), self._wire.limit)
        status = await stream.open(self._wire.link, [("accept", "text/event-stream"), *headers])
        if status == 200:
            self._streams[session] = stream
            stream.pause(self._wire.is_held)
            return stream
        stream.close()
        if status in TEMPORARY:
            raise ConnectionRefusedError(0, f"it answered with status {status}")
        raise StreamRefused(status)

    async def _open_stream(self, session: str | None) -> None:
        """Open a stream of a server without a log; its end fails requests, or ends the connection."""
        if session is not None and not can_be_named(session):
            raise StreamRefused(400)
        stream = await self._get(session, [(CONNECTION, self._id), *_naming(session)])
        stream.ended.add_done_callback(lambda _: self._stream_ended(session, stream))

    def _stream_ended(self, session: str | None, stream: EventStream) -> None:
        if self._streams.get(session) is not stream:
            return
        del self._streams[session]
        if session is None:
            self._wire.end(stream.goodbye)
        else:  # perhaps the whole server is gone, and the other streams have not shown it yet
            self._loop.call_later(SETTLING, self._fail_requests, session)

    def _fail_requests(self, session: str) -> None:
        """Answer the requests that wait on a session's ended stream, for they will get no other answer."""
        if session in self._streams:
            return
        for id in [id for id, of in self._ours.items() if of == session]:
            del self._ours[id]
            self._wire.heard([failure(id, -32603, "the session's event stream ended before the answer came")])

    async def _open_quietly(self, session: str) -> None:
        with contextlib.suppress(OSError, TimeoutError, ConnectionClosed):  # opened again when it is needed
            if session not in self._streams:
                await self._open_stream(session)

    async def _has_stream(self, session: str, message: MessageHead) -> bool:
        """Open a session's stream, unless it is open, before a message is sent whose answer comes there."""
        if self._opening:
            await asyncio.wait(self._opening)
        if session in self._streams:
            return True
        try:
            await self._open_stream(session)
        except StreamRefused as exc:
            if exc.status == 409:
                self._wire.refused(message, 409, b"the session's event stream is read by somebody else")
                return False
            # Some servers do not know a session until it is loaded; the answers come on the connection's stream.
        except (OSError, TimeoutError) as exc:
            if message.is_request:
                why = f"the session's event stream cannot be opened: {why_unreachable(exc)}"
                self._wire.heard([failure(message.id, -32603, why)])
                return False
        return True


OPENING = {"session/load", "session/resume", "session/fork"}


def _naming(session: str | None) -> Headers:
    """The header that names a session; without it, the message names the session itself."""
    return [(SESSION, session)] if session and can_be_named(session) else []


class StreamRefused(ConnectionClosed):
    """A server refused to open an event stream."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"{ENDED} (status {status})")
