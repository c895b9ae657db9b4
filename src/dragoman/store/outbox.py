"""Between an agent and its wire: an update is stored before its bytes are sent.

All frames that are sent pass through it, in order.  They wait here while the lines among them are being committed;
lines that arrive meanwhile are committed together next.  So a lone update waits for one small commit, and a stream
is committed in large ones.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from ..errors import ConnectionClosed
from ..transports import Hear, Transport
from .errors import StoreFailure
from .lines import COMMANDS, OWN, STATE, WHOLE
from .store import Store

EVENT, SAVED = "_dragoman/store/event", "_dragoman/store/state"  # notifications that end here
ROOM = 256 * 1024  # bytes not yet committed before a sender has to wait
PATIENCE = 10.0  # seconds the last lines may take to be stored when the wire is closed

_NOTE = b'{"jsonrpc":"2.0","method":"%s","params":{'
_UPDATE = _NOTE % b"session/update"
_USUAL = _UPDATE + b'"sessionId":"'
_EVENT, _SAVED = (_NOTE % name.encode() + b'"sessionId":"' for name in (EVENT, SAVED))
_PASSING = b'{"sessionUpdate":"notice"'  # shown once, never replayed
_NO_HABIT = b"\xff"  # no UTF-8 text begins with this byte
_SPECIAL = (_PASSING, COMMANDS)
_members = msgspec.json.Decoder(dict[str, Raw])
_value = msgspec.json.Decoder(Raw)


def escaped(id: str) -> bytes:
    """An id as it is written between quotes."""
    return msgspec.json.encode(id)[1:-1]


def frame_of(id: bytes, line: bytes) -> bytes:
    """The notification that carries a stored update."""
    if line.startswith(WHOLE):
        return b'%s%s",%s}' % (_USUAL, id, line[2:])
    return b'%s%s","update":%s}}' % (_USUAL, id, line)


class Outbox:
    """A transport that sends a session's updates only once they are stored; other sessions' at once."""

    def __init__(self, transport: Transport, store: Store, failed: Callable[[str], None]) -> None:
        self.failures: dict[str, Exception] = {}  # sessions whose latest updates could not be stored
        self.commands: dict[str, bytes] = {}  # the last update about a session's commands
        self._keeps: set[str] = set()
        self._habit, self._habitual = _NO_HABIT, ""
        self._inner = transport
        self._store = store
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []  # frames that wait to be sent
        self._lines: list[tuple[str, bytes]] = []  # lines that wait to be stored before them
        self._sizes = [0, 0]  # bytes being stored, bytes waiting
        self._in_flight: list[bytes] | None = None  # frames sent when the commit under way is done
        self._is_due = False  # the next commit begins in a moment
        self._holds = 0
        self._settled: list[asyncio.Future[None]] = []  # callers that wait for the commit under way
        self._next: list[asyncio.Future[None]] = []  # callers that wait for the one after it

    def keep(self, session_id: str) -> None:
        """Store the updates of a session from now on."""
        self._keeps.add(session_id)
        self.failures.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """Stop storing the updates of a session."""
        self._habit = _NO_HABIT
        self._keeps.discard(session_id)
        self.failures.pop(session_id, None)
        self.commands.pop(session_id, None)

    # Messages of the agent

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            if frame.startswith(self._habit):  # most begin with the same bytes as the previous one
                line = frame[len(self._habit) : -2]
                if not line.startswith(_SPECIAL) and _is_one(line):
                    self._lines.append((self._habitual, line))
                    self._frames.append(frame)
                    continue
            if self._take(frame):
                self._frames.append(frame)
        self._sizes[1] += sum(map(len, frames))
        if not self._lines:
            self._go_on()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)  # together with other updates of this moment

    def _take(self, frame: bytes) -> bool:
        """Queue the line that a notification holds; false if the notification is not sent on."""
        if frame.startswith(_USUAL):
            id, line = _split(frame, len(_USUAL), b'","update":')
            goes_out = True
        elif frame.startswith((_EVENT, _SAVED)):
            is_event = frame.startswith(_EVENT)
            id, line = _split(frame, len(_EVENT), b'","line":')
            line = (OWN if is_event else STATE) + line
            goes_out = False
        elif frame.startswith(_UPDATE):
            id, line = _unusual(frame)
            goes_out = True
        else:
            return True
        if id not in self._keeps:
            return goes_out
        if id in self.failures:
            return False
        if not line.startswith(_PASSING) and not self._is_known(id, line):
            self._lines.append((id, line))
        if goes_out:
            self._habit, self._habitual = b'%s%s","update":' % (_USUAL, escaped(id)), id
        return goes_out

    def _is_known(self, id: str, line: bytes) -> bool:
        """Whether an update only repeats the session's commands, as each opening of a session does."""
        if not line.startswith(COMMANDS):
            return False
        if self.commands.get(id) == line:
            return True
        self.commands[id] = line
        return False

    @contextlib.contextmanager
    def holding(self, is_needed: bool) -> Iterator[None]:
        """Keep back all frames from now on, because another message has to be sent first."""
        self._holds += is_needed
        try:
            yield
        finally:
            self._holds -= is_needed
            self._go_on()

    def _go_on(self) -> None:
        """Send frames that need no commit and commit the others, once the running commit is done."""
        self._is_due = False
        frames, lines = self._frames, self._lines
        if self._in_flight is not None or self._holds or not (frames or lines or self._next):
            return
        self._frames, self._lines = [], []
        self._settled, self._next = self._next, []
        self._sizes = [self._sizes[1], 0]
        if not lines:
            self._committed(frames, [], None)
            return
        self._in_flight = frames
        self._store.append(lines, functools.partial(self._committed, frames, lines))

    def _committed(self, frames: list[bytes], lines: list[tuple[str, bytes]], failure: Exception | None) -> None:
        self._in_flight = None
        self._sizes[0] = 0
        if failure:
            self._habit = _NO_HABIT
            lost = {id for id, _ in lines}
            frames = [frame for frame in frames if not frame.startswith(_UPDATE) or _session_of(frame) not in lost]
            for id in lost:
                self.failures[id] = failure
                self._failed(id)
        if frames:
            self._inner.send(frames)
        for waiting in self._settled:
            if not waiting.done():
                waiting.set_result(None)
        self._settled = []
        self._go_on()

    async def stored(self) -> None:
        """Return once everything sent so far is stored and on its way, or has failed."""
        has_more = bool(self._lines or self._frames)
        if self._in_flight is None and not has_more:
            return
        await self._settling(has_more)

    async def _settling(self, is_next: bool) -> None:
        """Wait for the commit under way, or for the one after it."""
        waiting: asyncio.Future[None] = self._loop.create_future()
        (self._next if is_next else self._settled).append(waiting)
        await waiting

    async def check(self, session_id: str) -> None:
        """Return once all updates of a session are stored; raise if they cannot be."""
        await self.stored()
        if failure := self.failures.get(session_id):
            raise StoreFailure(str(getattr(failure, "message", failure))) from None

    async def replay(self, frames: list[bytes]) -> None:
        """Send the stored frames."""
        self._inner.send(frames)
        await self._inner.drain()

    # The rest is passed on to the wire

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._inner.listen(hear, ended)

    def hold(self) -> None:
        self._inner.hold()

    def resume(self) -> None:
        self._inner.resume()

    @property
    def queued(self) -> int:
        return sum(self._sizes) + self._inner.queued

    async def drain(self) -> None:
        while sum(self._sizes) > ROOM:
            await self._settling(self._in_flight is None)
        await self._inner.drain()

    async def why_ended(self) -> Exception:
        return await self._inner.why_ended()

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(PATIENCE):
                await self.stored()
        await self._inner.close()


def note(session_id: str, value: object) -> dict[str, object]:
    """The parameters of a notification that ends here."""
    return {"sessionId": session_id, "line": value}


def _split(frame: bytes, start: int, name: bytes) -> tuple[str, bytes]:
    """The session and the update of a notification of ours."""
    end = frame.index(b'"', start)
    id, line = frame[start:end], frame[end + len(name) : -2]
    if b"\\" in id or not frame.startswith(name, end) or not _is_one(line):
        return _unusual(frame)
    return id.decode(), line


def _is_one(line: bytes) -> bool:
    """Whether it is one value: a notification may say more behind it."""
    try:
        _value.decode(line)
    except msgspec.DecodeError:
        return False
    return True


def _unusual(frame: bytes) -> tuple[str, bytes]:
    """A notification with more members than ours, or in another order, as a line that keeps it whole."""
    params = _members.decode(_members.decode(frame)["params"])
    id: str = msgspec.json.decode(params.pop("sessionId"))
    if "line" in params:  # a notification that ends here, with a session id that has to be escaped
        return id, bytes(params["line"])
    return id, WHOLE + msgspec.json.encode(params)


def _session_of(update: bytes) -> str:
    return _split(update, len(_USUAL), b'","update":')[0] if update.startswith(_USUAL) else _unusual(update)[0]
