"""A client that came to us: the wire to it as the agent sees one, whatever sockets it is carried by at the moment.

A client of the draft gets what is for it on several event streams, one for the connection and one for each session.
A client that resumes, and one on a WebSocket, gets everything on one.  Each stream keeps what its reader may still
lack; a reader that comes back says how far it had come.
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
from ..replay import ACKNOWLEDGE_EVERY, Receipt
from ..routing import MessageHead, head_of
from .stream import Stream, StreamClaim

KEPT = 16 * 1024 * 1024  # bytes a connection keeps of what was sent, for readers that do not acknowledge
SHARE = 4 * 1024 * 1024  # the most of it that one stream keeps
MAX_STREAMS = 1024
MAX_ROUTES = 4096  # requests whose answer has a stream to go to
MAX_PENDING = 256 * 1024  # frames the agent has not taken, though its client should have stopped
STALLED = 60.0  # seconds in which nobody takes what waits, while the agent does
CLOSING = ("session/close", "session/delete", "session/detach")  # after which nothing more is said of a session
ROOM = LOW_WATER + ACKNOWLEDGE_EVERY
HUNG_UP = 1000  # the code a WebSocket is closed with when all was said
POLICY = 1008  # and when the client does not do as it should


class WebRequest(Struct, frozen=True):
    """A client's request: its headers by lower-case name, its target, the other end of its socket."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: str = ""
    peer: str = ""
    is_secure: bool = False
    scope: Mapping[str, Any] = {}  # all the server knows, such as a client's certificate


class Route(NamedTuple):
    """Where an answer goes: a session's stream; after another one's history; and the session that it closes."""

    session: str | None = None
    after: str | None = None
    closes: str | None = None


class AcceptedTransport:
    """The wire to one client; `resumes` when both ends can take it up again, `is_one` when it has one stream."""

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
        self._loose: set[str] = set()  # sessions whose client does not say that it reads them
        self._early: set[str] = set()  # sessions the agent speaks of before the client can know them
        self._leaving: asyncio.TimerHandle | None = None
        self._left()

    # The wire, as the agent sees it

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
        """Give the readers the waiting frames, if they still take them, and end."""
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
        """Why it is over, in a few words."""
        return self._why or "the connection is closed"

    @property
    def reason(self) -> str:
        """The reason of the end that the client gets; None for an ordinary end."""
        return "" if self.close_code == HUNG_UP else self.why

    def end(self, why: str, code: int = HUNG_UP) -> None:
        """The client is gone for good; one that is sent away gets a code, which its WebSocket is closed with, and
        nothing more.
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
        """Hand the agent a frame; returns when it was taken."""
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
        """Hand the agent the frames of numbered texts that it has not heard yet; raises OutOfOrder at a gap.

        Frames that it does not take now wait here, unacknowledged, so the client stops by itself.  Not to read from
        it would not do, because its own acknowledgements come the same way.
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

    def _took_in(self, size: int) -> None:
        if self.heard.add(size) and self.resumes:
            self.streams[None].acknowledge = self.heard.tell() - len(self._pending)
            self.streams[None].wake()

    def acknowledged(self, number: int) -> None:
        """The client has heard everything up to a number."""
        self.streams[None].forget(number)
        self._taken.set()

    def attach(self, session: str | None, generation: int = 0) -> StreamClaim:
        """A reader has come for a stream, and takes the place of the one before."""
        self._loose.discard(session or "")
        if self._leaving:
            self._leaving.cancel()
        task = asyncio.current_task()
        assert task is not None
        return self.streams.setdefault(session, Stream()).attach(task, generation)

    def rewind(self, reader: StreamClaim, number: int) -> None:
        """A reader has everything up to a number, which may be all that the agent waits for to go on."""
        reader.stream.rewind(number)
        self._taken.set()

    def took(self, reader: StreamClaim) -> None:
        """A reader has got the waiting frames."""
        if not self.resumes:
            reader.stream.trim(min(SHARE, KEPT // len(self.streams)) if not self.is_one else 0)
        self._taken.set()

    def detach(self, reader: StreamClaim) -> None:
        """A reader has gone, unless another one has taken its place."""
        if reader.is_newest:
            reader.stream.reader = None
            if reader.stream.is_closed:
                self._drop_closed()
            self._left()

    def seen(self) -> None:
        """The client has said something, so it is still there."""
        if self._leaving:
            self._left()

    def expect_word(self) -> None:
        """Close the connection if the client has sent nothing by now."""
        if not self._has_spoken:
            self.end("the client said nothing", POLICY)

    def _left(self) -> None:
        """Nobody reads: without a word the client is gone after a while."""
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
        """Give the answer to `initialize` to the request that waits for it; the rest goes where it belongs."""
        for index, frame in enumerate(frames):
            if head_of(frame).is_answer:
                assert self.answered
                self.answered.set_result(frame)
                return frames[:index] + frames[index + 1 :]
        return frames

    # Which stream carries what

    def expects(self, message: MessageHead, named: bool) -> None:
        """Note where a request's answer is to go; `named` when the client sent the session's header, too."""
        if self.is_one or message.session is None:
            return
        self._early.discard(message.session)
        known = self.streams.get(message.session)
        if (known is None or known.is_closed) and self.has_room(message.session):
            self.streams[message.session] = Stream()
            if not named:  # such a client reads a session's stream once it hears of it on the connection's
                self._loose.add(message.session)
        if message.is_request and len(self._routes) < MAX_ROUTES:
            loads, closes = message.method == "session/load", message.method in CLOSING
            self._routes[message.id] = Route(
                None if loads else message.session,
                message.session if loads else None,
                message.session if closes else None,
            )

    def has_room(self, session: str | None) -> bool:
        """Whether a session may have a stream, made by forgetting those of sessions that were closed."""
        if session not in self.streams and len(self.streams) >= MAX_STREAMS:
            self._drop_closed()
        return session in self.streams or len(self.streams) < MAX_STREAMS

    def _drop_closed(self) -> None:
        """Forget the streams of sessions that were closed and that nobody reads."""
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
        """Its stream ends once its reader has the waiting frames."""
        self._loose.discard(session)
        self._early.discard(session)
        if stream := self.streams.get(session):
            stream.close()

    def _stream_of(self, session: str | None) -> Stream:
        """A session's stream, once the client knows the session; what is said before that must not come after."""
        stream = self.streams.get(session)
        if stream is None and session is not None and len(self._early) < MAX_STREAMS:
            self._early.add(session)
        if stream is None or session in self._early or (session in self._loose and not stream.reader):
            return self.streams[None]
        return stream

    async def _put_after(self, replay: Stream, frame: bytes) -> None:
        """A loaded session's history goes out before the word that it is loaded does."""
        while replay.size and replay.reader and self._why is None:
            self._taken.clear()
            await self._taken.wait()
        self.streams[None].put([frame])
