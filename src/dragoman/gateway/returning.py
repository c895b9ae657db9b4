"""The connection to a gateway: dialled again when it is lost, and what waits for it meanwhile.

Requests wait in the order they came, a bounded number of them, each for a bounded time.
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

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]  # called for each connection, where they change

LONGEST_OUTAGE = 600.0  # seconds to try to come back
PATIENCE = 60.0  # seconds that a request may wait for a gateway that is away
MAX_WAITING = 1024  # requests and notifications at a time
STEP_TIMEOUT = 60.0  # seconds for each request made while coming back
LAST_ANSWERS = 1.0  # seconds for what waited to be answered when it is over


class Withdrawn(Exception):
    """The waiting request was withdrawn before it was sent."""


class _Waiting(Struct, eq=False):
    """A place in the line; `session` is the one that a prompt is for."""

    turn: asyncio.Future[Connection]
    session: str | None


class Returning:
    """Leads to a gateway, over whichever connection there is.

    `prepare` is called with each new connection before it runs, `take_up` after a return, before anything that
    waited is sent.
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
        self.remote: Connection | None = None  # the one that is up
        self._url, self._headers, self._patience = url, headers, patience
        self._prepare, self._take_up = prepare, take_up
        self._persistence = Persistence(LONGEST_OUTAGE)
        self._line: list[_Waiting] = []
        self._over: str | None = None
        self._refused_at: float | None = None  # since when a gateway that answers does not let us in
        self._running: set[asyncio.Task[None]] = set()
        self._staying: asyncio.Task[None] | None = None

    # What waits

    async def connection(self, session: str | None = None) -> Connection:
        """The connection that is up, once there is one.

        Raises an error to answer with when that takes too long, and `Withdrawn` after `withdraw(session)`.
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
        """Send nothing of what waits for a session's turn."""
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
        """Dial for the first time; raises an error to answer with."""
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
        """From now on come back whenever the connection is lost; `over` is told why when that is given up."""
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
        """One try to come back; raises OSError where another may do."""
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
        """Whether a refusal may pass: a credential that is read anew may be replaced a moment after it expired."""
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
    """Ask a gateway on our own behalf; raises an error that can be answered with."""
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
    """Have what was just answered sent before the client is hung up on."""
    with contextlib.suppress(ConnectionClosed, TimeoutError):
        async with asyncio.timeout(LAST_ANSWERS):
            await asyncio.sleep(0)
            await client.room()
