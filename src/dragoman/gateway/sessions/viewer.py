"""One client at one session: its position in the log, and its open requests.

A viewer reads the log from its own position, so a slow one does not delay others.  While it keeps up, it gets
records as they become durable; once its connection is full, it falls behind, and reads on from the log when there
is room.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from ... import schema as s
from ...connection.connection import Connection
from ...errors import Error
from ...events import Method, Reply
from ..access.introductions import Introduction
from ..access.limits import Limits
from ..access.roles import Role, lower_role, may
from ..log.engine import Engine, LogEntry
from ..log.logs import records
from ..log.records import PromptEnded, raw, read_own, update_params
from ..workers import owned
from .fitting import Fit
from .history import History

if TYPE_CHECKING:
    from ..agents.mcp_servers import ClientServers

log = logging.getLogger("dragoman")

MAX_WAITERS = 10_000  # callbacks of one viewer for records that it has not got yet

UPDATE = Method("session/update", Raw, is_request=False)


class ConnectedClient(Protocol):
    """The interface of a connected client for sessions."""

    connection: Connection
    client_id: str  # distinguishes this client from others of the same principal, also after it returns
    knows_us: bool  # whether it wants the gateway's own notifications
    introduction: Introduction
    servers: "ClientServers"  # MCP servers in the client
    offers: s.ClientCapabilities

    @property
    def name(self) -> str:
        """The principal."""

    def lends(self, method: str) -> bool:
        """Whether it answers requests for its files or terminals."""

    def left(self, session: str, viewer: "Viewer") -> None:
        """Note that a viewer of this client has ended."""


class Viewer:
    """Sends one client the updates of one session."""

    def __init__(
        self,
        session: str,
        history: History,
        engine: Engine,
        client: ConnectedClient,
        role: Role,
        *,
        most: Role = "admin",
        after: int,
        fit: Fit,
        limits: Limits,
        evict: "Callable[[Viewer], None]",
        echo_until: int = 0,
    ) -> None:
        self.session, self.client = session, client
        self._own = bytes(raw({"sessionId": session}))[1:-1]  # bytes that each update of this session contains
        self.most = most  # the highest role that it wants
        self.role = role
        self.cursor = after
        self.fit = fit  # the updates that the client can take
        self.questions: dict[str, int] = {}  # questions to this client, by request id
        self._history, self._engine = history, engine
        self._limits = limits
        self._evict = evict
        self._echo_until = echo_until  # up to this record, the client also gets its own messages
        self.hears_itself = False  # whether it also gets its own messages after that
        self._pump: asyncio.Task[None] | None = None
        self._is_open = False
        self._kept_up = math.inf  # when it last was up to date
        self._warned = -math.inf  # when it was last warned that it lags
        self._left = False
        self.owed: dict[str, Callable[[PromptEnded], None]] = {}  # by prompt, the callback for its outcome
        self._waiters: list[tuple[int, Callable[[], None]]] = []  # callbacks for when a record has been sent

    @property
    def role(self) -> Role:
        """Its role in the session."""
        return self._role

    @role.setter
    def role(self, role: Role) -> None:
        self._role = lower_role(role, self.most)

    @property
    def may_edit(self) -> bool:
        return may(self.role, "editor")

    def open(self) -> None:
        """Begin to tell."""
        if not self._left:
            self._is_open = True
            self.catch_up()

    def offer(self, first: int, entries: Sequence[LogEntry]) -> None:
        """Send records that have become durable, the first with this number."""
        if not self._is_open:
            return
        if self._pump is None and self.cursor == first - 1:
            for number, entry in enumerate(entries, first):
                if self.client.connection.is_full:
                    break
                self._tell(number, entry)
        self.catch_up()
        self._watch_lag()

    async def reached(self, number: int) -> None:
        """Wait until the client has got everything up to a record, or has left."""
        if self.cursor < number and not self._left:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((number, lambda: None if reached.done() else reached.set_result(None)))
            await reached

    def notify(self, name: str, params: Mapping[str, object]) -> None:
        """Send the client a notification of the gateway, if it understands those."""
        if self.client.knows_us and not self._left:
            self._note(Method(name, Any, is_request=False), {"sessionId": self.session, **params})

    def after(self, number: int, do: Callable[[], None]) -> None:
        """Run a callback once the client has got everything up to a record, unless it leaves first."""
        if self._left:
            return
        if self.cursor >= number:
            do()
            return
        self._waiters.append((number, lambda: None if self._left else do()))
        if len(self._waiters) > MAX_WAITERS:
            self._drop()

    def pass_on(self, number: int, name: str, params: Raw) -> None:
        """Pass on a notification of the agent, in order after a record."""
        method = Method(name, Raw, is_request=False)
        self.after(number, lambda: self._note(method, params))

    def show(self, params: Raw, *, is_history: bool = False) -> None:
        """Send the client an update, as far as it can take it."""
        if not self.fit.knows_begun and self._own not in bytes(params):
            return
        if not self._left and (shown := self.fit.update(params, is_history=is_history)) is not None:
            self._note(UPDATE, shown)

    def show_alone(self, update: Mapping[str, object]) -> None:
        """Send only this client a notification that is not logged."""
        if not self._left:
            self._note(UPDATE, raw({"sessionId": self.session, "update": update}))

    def put(self, question_id: str, method: str, params: Raw, settle: Callable[[Reply], None]) -> None:
        """Send the client a request."""
        if question_id not in self.questions and not self._left and not self.client.connection.closed:
            self.questions[question_id] = self.client.connection.submit(Method(method, Raw, Raw), params, settle)

    def withdraw(self, question_id: str) -> None:
        """Tell the client that a question has been answered; its own answer is too late then."""
        id = self.questions.pop(question_id, None)
        if id is not None and not self._left and not self.client.connection.closed:
            self.client.connection.request_cancel(id)

    def leave(self) -> None:
        """Stop telling."""
        self._left, self._is_open = True, False
        self.client.left(self.session, self)
        if self._pump:
            self._pump.cancel()
        self._wake()

    def catch_up(self) -> None:
        """Read on in the log if there is more."""
        if self._pump is None and self.cursor < self._history.durable and self._is_open:
            self._pump = owned(self._read_on(), "catching up", lambda exc: self._drop())
        elif self.cursor == self._history.durable:
            self._kept_up = time.monotonic()

    async def _read_on(self) -> None:
        connection = self.client.connection
        try:
            while self.cursor < self._history.durable and self._is_open:
                async with aclosing(records(self._engine, self.session, self.cursor)) as owed:
                    async for record in owed:
                        if connection.is_full:
                            await connection.room()
                        self._tell(record.number, record.entry)
            self._kept_up = time.monotonic()
        except Error as exc:  # the client is gone, or the log cannot be read: it gets the rest when it returns
            log.info("a viewer is left behind: %s", exc)
            self._drop()
        finally:
            self._pump = None
            self._wake()

    def _tell(self, number: int, entry: LogEntry) -> None:
        self.cursor = number
        own = entry.client == self.client.client_id and entry.principal == self.client.name
        if (params := update_params(entry.frame)) is None:
            self._tell_outcome(entry.frame)
        elif self.hears_itself or not own or number <= self._echo_until:
            self.show(params, is_history=number <= self._echo_until)
        if self._waiters:
            self._wake()

    def _tell_outcome(self, frame: bytes) -> None:
        """Answer a prompt of this client in order: after its updates and before later ones."""
        if self.owed and isinstance(ended := read_own(frame), PromptEnded) and ended.prompt in self.owed:
            self.owed.pop(ended.prompt)(ended)

    def _note(self, method: Method, params: object) -> None:
        try:
            self.client.connection.note(method, params)
        except Error as exc:
            log.info("a viewer is gone: %s", exc)
            self._drop()

    def _drop(self) -> None:
        """Remove a client that cannot be reached; it gets the rest when it returns."""
        self._is_open = False
        self._evict(self)

    def _watch_lag(self) -> None:
        behind = self._history.durable - self.cursor
        if behind < self._limits.warn_lag or self._kept_up == math.inf:  # it is still getting the earlier history
            return
        now = time.monotonic()
        # Warned once each time it falls behind, and not repeatedly while it is near the limit.
        if self._warned < self._kept_up and now - self._warned > self._limits.lag_seconds:
            self._warned = now
            self.notify("_dragoman/lagging", {"behind": behind, "most": self._limits.evict_lag})
        if behind >= self._limits.evict_lag and now - self._kept_up > self._limits.lag_seconds:
            self._drop()

    def _wake(self) -> None:
        reached = [waiter for waiter in self._waiters if self.cursor >= waiter[0] or self._left]
        self._waiters = [waiter for waiter in self._waiters if waiter not in reached]
        for _, go_on in reached:
            go_on()
