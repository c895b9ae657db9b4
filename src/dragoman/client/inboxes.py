"""The inboxes of a connection, by session, including sessions that are not open yet or that nobody here opened."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from ..connection.connection import Connection
from ..errors import Error, ResourceNotFound
from .inbox import Inbox

log = logging.getLogger("dragoman")

MAX_UNOPENED = 256  # sessions whose updates are kept though nobody has opened them
UNOPENED_MEMORY = 64 * 1024  # bytes kept of each of them
OPENING_DISK = 256 * 1024 * 1024  # further bytes of each while a session is being opened: it may be this one


class Inboxes(dict[str, Inbox]):
    """`inboxes[session_id]` is made when it is first asked for.

    A session that was opened here has the full room, and holds up the wire when that is used up.  A session that
    nobody opened here loses its updates when there are too many.  While a session is being opened nobody can read
    it, and a held wire would hold up the answer that opens it; there, too many updates are an error for its reader.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[
            str, None
        ] = {}  # the sessions somebody here has opened; an empty set takes thrice as much
        self._unopened: dict[str, None] = {}  # sessions that have an inbox though nobody opened them, oldest first
        self._opening = 0  # how many sessions are being opened whose ids are not known yet
        self._has_warned = False  # that updates of unopened sessions are dropped

    def __missing__(self, session_id: str) -> Inbox:
        self[session_id] = inbox = Inbox(self._connection.home, self._connection)
        if session_id not in self._known:
            if len(self._unopened) >= MAX_UNOPENED:
                self._drop(next(iter(self._unopened)))
            self._unopened[session_id] = None
            if self._opening:
                self._fail_when_full(session_id, memory=UNOPENED_MEMORY, disk=OPENING_DISK)
            else:
                self._drop_when_full(session_id)
        return inbox

    def know(self, session_id: str) -> Inbox:
        """Make the inbox of a session that this client opens."""
        self._known[session_id] = None
        self._unopened.pop(session_id, None)
        if inbox := self.get(session_id):
            inbox.resize(self._connection)
        return self[session_id]

    def forget(self, session_id: str) -> None:
        """Drop the updates of a session that is not open here any longer."""
        self._known.pop(session_id, None)
        self._unopened.pop(session_id, None)
        if inbox := self.pop(session_id, None):
            inbox.close()

    @contextlib.contextmanager
    def loading(self, session_id: str) -> Iterator[None]:
        """Keep the history of a session being loaded, which comes before the answer; drop it if loading fails."""
        self.forget(session_id)
        self.know(session_id)
        self._fail_when_full(session_id)
        try:
            yield
        except BaseException:
            self.forget(session_id)
            raise

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Keep updates while a session is being opened: its updates may come before its id."""
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1
            for session_id in [] if self._opening else list(self._unopened):
                if self[session_id].spooled:
                    self._drop(session_id)
                else:
                    self._drop_when_full(session_id)

    @contextlib.contextmanager
    def leaving(self, session_id: str) -> Iterator[None]:
        """Forget a session that is closed or deleted, whatever the agent answers; it may be unknown."""
        try:
            with contextlib.suppress(ResourceNotFound):
                yield
        finally:
            self.forget(session_id)

    def wake(self) -> None:
        for inbox in self.values():
            inbox.wake()

    def close(self) -> None:
        for session_id in list(self):
            self.forget(session_id)

    def _drop_when_full(self, session_id: str) -> None:
        self[session_id].resize(_Instead(lambda: self._drop(session_id)), memory=UNOPENED_MEMORY, disk=0)

    def _drop(self, session_id: str) -> None:
        level = logging.INFO if self._has_warned else logging.WARNING
        log.log(level, "updates of session %r are dropped: nobody has opened it", session_id)
        self._has_warned = True
        self.forget(session_id)

    def _fail_when_full(self, session_id: str, **room: int) -> None:
        inbox = self[session_id]

        def fail() -> None:
            inbox.fail(Error(f"more updates than can be kept came before session {session_id!r} was open"))

        inbox.resize(_Instead(fail), **room)


class _Instead:
    """Stands for a wire that must not be held: calls `hold` instead when there is no room left."""

    def __init__(self, hold: Callable[[], None]) -> None:
        self.hold = hold

    def resume(self) -> None:
        """Nothing waits for room."""
