"""One connection to an MCP server: a task opens and closes it, and any task can use it.

The MCP library is loaded with the first connection.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import __version__
from .. import schema as s
from ..agent.turn import AgentSession
from ..errors import Error
from ..host.audit.redaction import Redactor
from .contents import Clean
from .logs import guard_logs
from .questions import ServerQuestions
from .transports.streams import Loss, streams

if TYPE_CHECKING:
    from mcp.client.client import Client

log = logging.getLogger("dragoman")

T = TypeVar("T")

INSTALL = "pip install 'dragoman[mcp]'"
CONNECT = 30.0  # seconds a server may take to be ready
LAST_WORDS = 500  # characters of a server's stderr that an error contains
MAX_READ = 1024 * 1024  # characters of it that are read
MAX_ERROR = 2000  # characters of a server's own error message
LISTS = ("tools", "prompts", "resources")
CHANGES = {f"notifications/{kind}/list_changed": kind for kind in LISTS}
CLOSED = -32000  # the library's error for a connection that ended


class McpFailure(Error):
    """A server cannot be reached, or a call of its tool failed; the text is one line."""


class ServerConnection:
    """A connection from its beginning to its end; a lost one is not restored."""

    def __init__(
        self,
        config: s.McpServer,
        session: AgentSession,
        questions: ServerQuestions,
        changed: Callable[[str], None],
    ) -> None:
        self._name = config.name
        self._config = config
        self._session = session
        self._questions = questions
        self._changed = changed
        self._loss = Loss()
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect; raises Failure."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self._name}")
        try:
            while True:
                await asyncio.wait([self._ready], timeout=CONNECT)
                if self._ready.done():
                    break
                if not (self._loss.login and self._loss.login.is_waiting):  # for the user
                    raise TimeoutError
            await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise McpFailure(f"the MCP server {self._name!r} does not answer") from None
        except BaseException:
            await self.close()
            raise

    @property
    def is_lost(self) -> bool:
        return self._loss.is_set() or self._owner is None or self._owner.done()

    @property
    def was_refused(self) -> bool:
        """Whether the server had forgotten this connection and therefore did nothing."""
        return self._loss.refused

    def told_besides(self) -> str:
        """Further information about a failed call."""
        return self._loss.requests.told()

    async def use(self, request: "Callable[[Client], Awaitable[T]]") -> T:
        """The library's result of a request; raises its errors, and Failure if the connection ends."""
        assert self._owner
        if self.is_lost:
            raise McpFailure(f"the MCP server {self._name!r} is gone")
        asking = asyncio.ensure_future(request(self._ready.result()))
        try:
            with self._questions.welcome():
                await asyncio.wait([asking, self._owner], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise McpFailure(f"the MCP server {self._name!r} hung up")
            return asking.result()
        except Exception as exc:
            # Over HTTP the same error says that one answer broke off.
            if getattr(exc, "code", None) == CLOSED and not isinstance(self._config, s.McpServerHttp):
                self._loss.set()
            raise
        finally:
            asking.cancel()

    async def close(self) -> None:
        """Close the connection; a server that was started here ends."""
        self._closing.set()
        if self._owner:
            if not self._ready.done():  # it waits for the server, not for us
                self._owner.cancel()
            await asyncio.wait([self._owner])

    async def _own(self) -> None:
        """Hold the connection open from its beginning to its end, in one task."""
        try:
            # In a thread: the library takes a second to load.
            library = await asyncio.to_thread(_load, self._questions.redactor)
            async with library(**self._settings()) as client:
                with self._following(client):
                    self._ready.set_result(client)
                    await _first(self._closing, self._loss.event)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            if not self._ready.done():
                self._ready.set_exception(
                    McpFailure(_why(self._name, exc, self._loss.last_words, self._questions.clean))
                )
        finally:
            if self._loss.login:
                await self._loss.login.close()
            self._loss.set()
            if not self._ready.done():
                self._ready.set_exception(McpFailure(f"the MCP server {self._name!r} is not wanted any more"))
            if not self._ready.cancelled():
                self._ready.exception()  # whether or not anybody waits for it

    def _settings(self) -> Mapping[str, Any]:
        from mcp_types import Implementation

        from .tasks import TaskExtension

        return {
            "server": streams(self._config, self._session, self._loss, self._questions.redactor),
            "client_info": Implementation(name="dragoman", version=__version__),
            "cache": None,
            "extensions": [TaskExtension(self._questions)],
            "message_handler": self._hear,
            **self._questions.answers(),
        }

    async def _hear(self, message: Any) -> None:
        """A message that a server sends by itself."""
        kind = CHANGES.get(getattr(message, "method", ""))
        if kind is not None:
            self._changed(kind)
        elif self._questions.can_be_asked:
            await self._questions.hear(message)

    @contextlib.contextmanager
    def _following(self, client: "Client") -> Iterator[None]:
        """Subscribe to changes of lists, in protocol versions in which servers report them only to subscribers."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        offers = client.server_capabilities
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        told = [kind for kind in LISTS if (offer := getattr(offers, kind)) and offer.list_changed]
        if not is_modern or not told or isinstance(self._config, s.McpServerAcp):
            yield  # it reports to everybody or nobody, or its transport cannot carry a server's own messages
            return
        listening = asyncio.create_task(self._listen(client, told), name=f"mcp {self._name} changes")
        try:
            yield
        finally:
            listening.cancel()

    async def _listen(self, client: "Client", kinds: Sequence[str]) -> None:
        try:
            async with client.listen(
                tools_list_changed="tools" in kinds,
                prompts_list_changed="prompts" in kinds,
                resources_list_changed="resources" in kinds,
            ) as events:
                async for _ in events:
                    for kind in kinds:
                        self._changed(kind)
        except Exception as exc:  # the server can still be used
            log.debug("the MCP server %r does not tell of changes: %s", self._name, exc)


def _load(redactor: Redactor) -> Any:
    import mcp.client.sse  # noqa: F401 - everything that logs is loaded before the log is guarded
    from mcp.client.client import Client

    guard_logs(redactor)
    return Client


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of several events."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _why(name: str, exc: BaseException, last_words: Sequence[str], clean: Clean) -> str:
    if isinstance(exc, ImportError):
        return f"the library that speaks MCP is not installed ({exc.name}): {INSTALL}"
    said = " ".join(clean("".join(last_words))[-LAST_WORDS:].split())
    return f"the MCP server {name!r} cannot be used: {one_line(exc, clean)}{f'; it said: {said}' if said else ''}"


def one_line(exc: BaseException, clean: Clean) -> str:
    """An exception in one line, without credentials; for a group, its first exception with a message."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return clean(str(exc)[:MAX_READ] or type(exc).__name__)[:MAX_ERROR].splitlines()[0][:300]


def shortened(text: str) -> str:
    """A server's own error message, cut to a length that can be sent on."""
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}… ({len(text):,} characters)"
