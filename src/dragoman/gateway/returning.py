"""The connection to a gateway, which is dialled again when it is lost, and the requests that wait meanwhile.

Requests wait in order, a limited number of them, each for a limited time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Raw, Struct

from ..connection.connection import Connection
from ..errors import AgentStartError, ConnectionClosed, Error, InternalError, Overloaded, RpcError
from ..events import Method
from ..transports.remote.addresses import Persistence
from ..transports.remote.dialling import dial
from ..transports.translating import TranslatingTransport

log = logging.getLogger("dragoman")

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]  # a function is called for each connection

LONGEST_OUTAGE = 600.0  # seconds to try to reconnect
PATIENCE = 60.0  # seconds that a request may wait for an unreachable gateway
MAX_WAITING = 1024  # waiting requests and notifications
STEP_TIMEOUT = 60.0  # seconds for each request during a reconnection
LAST_ANSWERS = 1.0  # seconds for answering waiting requests at the end


class Withdrawn(Exception):
    """The waiting request was withdrawn before it was sent."""


class _Waiting(Struct, eq=False):
    """A waiting request; `session` is the session of a prompt."""

    turn: asyncio.Future[Connection]
    session: str | None


class Returning:
    """The current connection to a gateway.

    `prepare` is called with each new connection before it runs, `take_up` after a reconnection, before waiting
    requests are sent.
    """

    def __init__(
        self,
        url: str,
        headers: Headers,
        patience: float,
        *,
        prepare: Callable[[Connection], None],
        take_up: Callable[[Connection], Awaitable[None]],
    ) -> None:
        self.remote: Connection | None = None  # the open connection
        self._url, self._headers, self._patience = url, headers, patience
        self._prepare, self._take_up = prepare, take_up
        self._persistence = Persistence(LONGEST_OUTAGE)
        self._line: list[_Waiting] = []
        self._over: str | None = None
        self._refused_at: float | None = None  # since when a reachable gateway refuses us
        self._running: set[asyncio.Task[None]] = set()
        self._staying: asyncio.Task[None] | None = None

    # What waits

    async def connection(self, session: str | None = None) -> Connection:
        """Wait for an open connection.

        Raises an error for the client if that takes too long, and `Withdrawn` after `withdraw(session)`.
        """
        if self.remote and not self.remote.closed:
            return self.remote
        if self._over is not None:
            raise InternalError(self._over, {"kind": "gateway_away"})
        if len(self._line) >= MAX_WAITING:
            raise Overloaded(f"the gateway is away, and {MAX_WAITING} requests wait for it already")
        waiting = _Waiting(asyncio.get_running_loop().create_future(), session)
        self._line.append(waiting)
        self._persistence.retry_soon()
        try:
            async with asyncio.timeout(self._patience / 2):
                return await waiting.turn
        except TimeoutError:
            why = f"the gateway is away and has not come back in {self._patience / 2:g} s; try again later"
            raise InternalError(why, {"kind": "gateway_away"}) from None
        finally:
            self._line.remove(waiting)

    def withdraw(self, session: str) -> None:
        """Withdraw a session's waiting prompts."""
        for waiting in self._line:
            if waiting.session == session and not waiting.turn.done():
                waiting.turn.set_exception(Withdrawn())

    def _serve_line(self, connection: Connection) -> None:
        self.remote = connection
        for waiting in self._line:
            if not waiting.turn.done():
                waiting.turn.set_result(connection)

    def _fail_line(self, why: str) -> None:
        self._over = why
        for waiting in self._line:
            if not waiting.turn.done():
                waiting.turn.set_exception(InternalError(why, {"kind": "gateway_away"}))

    # The connection

    async def open(self) -> Connection:
        """Dial for the first time; raises an error for the client."""
        try:
            connection = await self._dial()
        except AgentStartError as exc:
            raise InternalError(str(exc)) from None
        self.remote = connection
        return connection

    async def _dial(self) -> Connection:
        headers = self._headers() if callable(self._headers) else self._headers
        wire = await dial(self._url, headers=headers, patience=self._patience / 2)
        connection = Connection(TranslatingTransport(wire, "agent"), quiet=True)
        self._prepare(connection)
        running = asyncio.create_task(connection.run(), name="gateway")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return connection

    def stay(self, *, comes_back: bool, over: Callable[[str], None]) -> None:
        """Reconnect whenever the connection is lost; `over` is called with the reason when that is given up."""
        self._staying = asyncio.create_task(self._stay(comes_back, over), name="staying attached")

    async def _stay(self, comes_back: bool, over: Callable[[str], None]) -> None:
        try:
            while True:
                assert self.remote
                await _closed(self.remote)
                if not comes_back:
                    raise ConnectionClosed(str(self.remote.closed))
                log.info("the gateway is away (%s); trying to come back", self.remote.closed)
                self._serve_line(await self._persistence.persist(self._return))
                self._persistence.note_success()
        except Exception as exc:
            log.error("the gateway cannot be reached any more: %s", exc)
            why = f"the gateway cannot be reached any more: {exc}"
            self._fail_line(why)
            over(why)

    async def _return(self) -> Connection:
        """Try to reconnect once; raises OSError if another attempt may succeed."""
        try:
            connection = await self._dial()
        except Error as exc:
            if isinstance(exc.__context__, OSError | TimeoutError) or self._may_be_let_in():
                raise ConnectionRefusedError(0, str(exc)) from None
            raise
        self._refused_at = None
        try:
            await self._take_up(connection)
        except BaseException as exc:
            connection.hang_up()
            if isinstance(exc, Error):
                raise ConnectionResetError(0, str(exc)) from None
            raise
        return connection

    def _may_be_let_in(self) -> bool:
        """Whether a refusal may be temporary: a reread credential may be replaced just after it expired."""
        now = asyncio.get_running_loop().time()
        if self._refused_at is None:
            self._refused_at = now
        return callable(self._headers) and now - self._refused_at < self._patience

    async def close(self) -> None:
        if self._staying:
            self._staying.cancel()
            await asyncio.wait([self._staying])
        for running in list(self._running):
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)


async def ask(connection: Connection, name: str, params: Raw, timeout: float | None = STEP_TIMEOUT) -> Raw:
    """Send the gateway a request of our own; raises an error for the client."""
    try:
        return await connection.call(Method(name, Raw, Raw, timeout=timeout), params)  # type: ignore[no-any-return]
    except RpcError as exc:
        raise RpcError.of(exc.code, exc.message, exc.data) from None
    except Error as exc:
        raise InternalError(str(exc)) from None


async def _closed(connection: Connection) -> None:
    closed = asyncio.Event()
    connection.when_closed(closed.set)
    if not connection.closed:
        await closed.wait()


async def last_answers(client: Connection) -> None:
    """Send the last answers before the client is disconnected."""
    with contextlib.suppress(ConnectionClosed, TimeoutError):
        async with asyncio.timeout(LAST_ANSWERS):
            await asyncio.sleep(0)
            await client.room()
