"""The transport to a remote client, as the agent sees it, whichever sockets carry it at the moment.

A client of the draft gets its messages on several event streams: one for the connection and one for each session.
A client that resumes, or that uses a WebSocket, gets everything on one stream.  Each stream keeps the frames that
its reader may still lack; a reader that reconnects states the last number it received.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from ....envelope import NULL, read_envelope
from ....errors import ConnectionClosed
from ....framing import one_line
from ... import LOW_WATER, Hear
from ..addresses import LAST_WORDS
from ..replay import ACKNOWLEDGE_EVERY, Receipt, read_number
from ..routing import MessageHead, head_of
from .stream import Stream, StreamClaim

KEPT = 16 * 1024 * 1024  # bytes of sent frames that a connection keeps for readers that do not acknowledge
SHARE = 4 * 1024 * 1024  # and that one stream keeps at most
MAX_STREAMS = 1024
MAX_ROUTES = 4096  # requests whose stream for the answer is remembered
MAX_PENDING = 256 * 1024  # frames that the agent has not taken, though its client should have stopped
STALLED = 60.0  # seconds in which the client takes nothing, while the agent waits for it
# methods after which nothing more is sent for a session
CLOSING = ("session/close", "session/delete", "session/detach")
ROOM = LOW_WATER + ACKNOWLEDGE_EVERY
HUNG_UP = 1000  # the close code of a WebSocket at an ordinary end
POLICY = 1008  # and when the client breaks a rule


class WebRequest(Struct, frozen=True):
    """A client's request: its headers by lower-case name, its target, the address of the client."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: str = ""
    peer: str = ""
    is_secure: bool = False
    scope: Mapping[str, Any] = {}  # all that the server knows, such as a client's certificate


class Route(NamedTuple):
    """Where an answer goes: a session's stream; `after` another session's history; the session that it closes."""

    session: str | None = None
    after: str | None = None
    closes: str | None = None


class AcceptedTransport:
    """The transport to one client; `resumes` if both ends can resume it, `is_one` if it has one stream."""

    def __init__(
        self,
        id: str,
        request: WebRequest,
        principal: Hashable = None,
        *,
        resumes: bool = False,
        is_one: bool = True,
        grace: float = 0,
    ) -> None:
        self.id, self.request, self.principal = id, request, principal
        self.resumes, self.is_one = resumes, is_one
        self.heard = Receipt()
        self._has_spoken = False
        self.streams: dict[str | None, Stream] = {None: Stream()}
        self.answered: asyncio.Future[bytes] | None = None  # messages that wait for the answer to `initialize`
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._hear: Hear | None = None
        self._ended: Callable[[], None] | None = None
        self._held = False
        self._pending: deque[tuple[bytes, asyncio.Future[None] | None]] = deque()  # arrived while held
        self._taken = asyncio.Event()
        self._why: str | None = None
        self.close_code = HUNG_UP
        self._routes: dict[bytes, Route] = {}  # where answers go
        self._loose: set[str] = set()  # sessions whose client does not announce that it reads their streams
        self._early: set[str] = set()  # sessions that the agent names before the client can know them
        self._leaving: asyncio.TimerHandle | None = None
        self._left()

    # The transport, as the agent sees it

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._hear, self._ended = hear, ended
        self._hear_pending()
        if self._why is not None:
            self._loop.call_soon(ended)

    def hold(self) -> None:
        self._held = True

    def resume(self) -> None:
        self._held = False
        self._hear_pending()

    def send(self, frames: list[bytes]) -> None:
        if self._why is not None:
            return
        if self.answered and not self.answered.done():
            frames = self._answer(frames)
        if self.is_one:
            self.streams[None].put(frames)
        else:
            for frame in frames:
                self._route(frame)

    @property
    def queued(self) -> int:
        size = sum(stream.size for stream in self.streams.values())
        return size + self.streams[None].unacknowledged if self.resumes else size

    async def drain(self) -> None:
        room = ROOM if self.resumes else LOW_WATER
        while self._why is None and (before := self.queued) > room:
            self._taken.clear()
            try:
                async with asyncio.timeout(None if self.resumes else STALLED):
                    await self._taken.wait()
            except TimeoutError:
                if self.queued >= before and any(stream.size and not stream.reader for stream in self._all()):
                    self.end("the client does not read its messages")

    async def why_ended(self) -> Exception:
        return ConnectionClosed(self.why)

    async def close(self) -> None:
        """Send the waiting frames to the readers, if they still take them, and end."""
        for stream in self._all():
            stream.close()
        readers = {stream.reader.task for stream in self._all() if stream.reader}
        if readers:
            _, slow = await asyncio.wait(readers, timeout=LAST_WORDS)
            for reader in slow:
                reader.cancel()
        self.end("we hung up")

    # The client's actions

    @property
    def is_over(self) -> bool:
        return self._why is not None

    @property
    def why(self) -> str:
        """A short reason why it has ended."""
        return self._why or "the connection is closed"

    @property
    def reason(self) -> str:
        """The reason that the client is given; None for an ordinary end."""
        return "" if self.close_code == HUNG_UP else self.why

    def end(self, why: str, code: int = HUNG_UP) -> None:
        """End the connection for good; a client that is disconnected for a fault gets only `code`, with which its
        WebSocket is closed.
        """
        if self._why is not None:
            return
        self._why, self.close_code = why, code
        if self._leaving:
            self._leaving.cancel()
        for stream in self._all():
            if code != HUNG_UP:
                stream.discard()
            stream.close()
        self._taken.set()
        self._hear_pending()
        if self.answered and not self.answered.done():
            self.answered.cancel()
        if self._ended:
            self._ended()

    async def accept(self, frame: bytes) -> None:
        """Give the agent a frame; returns when the agent has taken it."""
        if self._why is not None:
            return
        self._has_spoken = True
        frame = one_line(frame)
        if self._hear and not self._held and not self._pending:
            self._hear([frame])
        else:
            taken = self._loop.create_future()
            self._pending.append((frame, taken))
            await taken

    def accept_numbered(self, texts: list[bytes]) -> None:
        """Give the agent the frames of numbered texts that it does not have yet; raises OutOfOrder at a gap.

        Frames that the agent does not take now wait here unacknowledged, so that the client stops by itself.  The
        socket has to be read all the same, because the client's acknowledgements come the same way.
        """
        if self._why is not None:
            return
        self._has_spoken = True
        admitted, gap = self.heard.admit_numbered(texts)
        frames = [*map(one_line, admitted)]
        if self._hear and not self._held and not self._pending:
            self._hear([*frames])
            self._took_in(sum(map(len, frames)))
        elif len(self._pending) + len(frames) > MAX_PENDING:
            self.end("the client sends more than it was allowed to")
        else:
            self._pending.extend((frame, None) for frame in frames)
        if gap:
            raise gap

    def notice_numbers(self, first: bytes) -> None:
        """Look for a number at a frame: without one at the first, the client does not know that it may resume.

        Some servers and proxies drop the headers with which we accept a WebSocket.
        """
        if self.resumes and not self._has_spoken and read_number(first.partition(b" ")[0]) is None:
            self.resumes, self._grace = False, 0

    def _took_in(self, size: int) -> None:
        if self.heard.add(size) and self.resumes:
            self.streams[None].acknowledge = self.heard.tell() - len(self._pending)
            self.streams[None].wake()

    def acknowledged(self, number: int) -> None:
        """Note that the client has received everything up to a number."""
        self.streams[None].forget(number)
        self._taken.set()

    def attach(self, session: str | None, generation: int = 0) -> StreamClaim:
        """Attach a new reader to a stream; it replaces the previous one."""
        self._loose.discard(session or "")
        if self._leaving:
            self._leaving.cancel()
        task = asyncio.current_task()
        assert task is not None
        return self.streams.setdefault(session, Stream()).attach(task, generation)

    def rewind(self, reader: StreamClaim, number: int) -> None:
        """Continue a stream after the number that its reader has; this may give the agent room to continue."""
        reader.stream.rewind(number)
        self._taken.set()

    def took(self, reader: StreamClaim) -> None:
        """Note that a reader has taken waiting frames."""
        if not self.resumes:
            reader.stream.trim(min(SHARE, KEPT // len(self.streams)) if not self.is_one else 0)
        self._taken.set()

    def detach(self, reader: StreamClaim) -> None:
        """Detach a reader, unless a newer one has replaced it."""
        if reader.is_newest:
            reader.stream.reader = None
            if reader.stream.is_closed:
                self._drop_closed()
            self._left()

    def seen(self) -> None:
        """Note that the client has sent something, so it is still connected."""
        if self._leaving:
            self._left()

    def expect_word(self) -> None:
        """Close the connection if the client sends nothing in time."""
        if not self._has_spoken:
            self.end("the client said nothing", POLICY)

    def _left(self) -> None:
        """No reader is left: end the connection unless the client sends something in time."""
        if self._why is None and not any(stream.reader for stream in self._all()):
            if self._leaving:
                self._leaving.cancel()
            self._leaving = self._loop.call_later(self._grace, self.end, "the client did not come back")

    def _all(self) -> list[Stream]:
        return list(self.streams.values())

    def _hear_pending(self) -> None:
        while self._pending and (self._why is not None or (self._hear and not self._held)):
            frame, taken = self._pending.popleft()
            if self._hear and self._why is None:
                self._hear([frame])
            if taken is None:
                self._took_in(len(frame))
            elif not taken.done():
                taken.set_result(None)

    def _answer(self, frames: list[bytes]) -> list[bytes]:
        """Give the answer to `initialize` to the request that waits for it; other frames go to their streams."""
        for index, frame in enumerate(frames):
            if head_of(frame).is_answer:
                assert self.answered
                self.answered.set_result(frame)
                return frames[:index] + frames[index + 1 :]
        return frames

    # The stream of each frame

    def expects(self, message: MessageHead, named: bool) -> None:
        """Note the stream for a request's answer; `named` if the client also sent the session's header."""
        if self.is_one or message.session is None:
            return
        self._early.discard(message.session)
        known = self.streams.get(message.session)
        if (known is None or known.is_closed) and self.has_room(message.session):
            self.streams[message.session] = Stream()
            # such a client reads a session's stream once the connection's stream has named the session
            if not named:
                self._loose.add(message.session)
        if message.is_request and len(self._routes) < MAX_ROUTES:
            loads, closes = message.method == "session/load", message.method in CLOSING
            self._routes[message.id] = Route(
                None if loads else message.session,
                message.session if loads else None,
                message.session if closes else None,
            )

    def has_room(self, session: str | None) -> bool:
        """Whether another session may have a stream; the streams of closed sessions are dropped to make room."""
        if session not in self.streams and len(self.streams) >= MAX_STREAMS:
            self._drop_closed()
        return session in self.streams or len(self.streams) < MAX_STREAMS

    def _drop_closed(self) -> None:
        """Drop the streams of closed sessions that have no reader."""
        for session, stream in list(self.streams.items()):
            if session is not None and stream.is_closed and not stream.reader:
                del self.streams[session]

    def _route(self, frame: bytes) -> None:
        message = head_of(frame)
        route = self._routes.pop(message.id, Route()) if message.is_answer else Route(message.session)
        if message.opened is not None and self.has_room(message.opened):
            self._early.discard(message.opened)
            self.streams.setdefault(message.opened, Stream())
        if route.after is not None and (replay := self.streams.get(route.after)) and replay.size and replay.reader:
            self._loop.create_task(self._put_after(replay, frame))
        else:
            self._stream_of(route.session).put([frame])
        if route.closes is not None and read_envelope(frame).error == NULL:
            self._close_session(route.closes)

    def _close_session(self, session: str) -> None:
        """End a session's stream once its reader has the waiting frames."""
        self._loose.discard(session)
        self._early.discard(session)
        if stream := self.streams.get(session):
            stream.close()

    def _stream_of(self, session: str | None) -> Stream:
        """A session's stream; until the client knows the session, the connection's stream, to keep the order."""
        stream = self.streams.get(session)
        if stream is None and session is not None and len(self._early) < MAX_STREAMS:
            self._early.add(session)
        if stream is None or session in self._early or (session in self._loose and not stream.reader):
            return self.streams[None]
        return stream

    async def _put_after(self, replay: Stream, frame: bytes) -> None:
        """Send the answer to `session/load` only after the session's history."""
        while replay.size and replay.reader and self._why is None:
            self._taken.clear()
            await self._taken.wait()
        self.streams[None].put([frame])
