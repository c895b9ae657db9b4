"""The MCP servers of a session: their lists and calls, over a connection that is restored when it is lost."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from .. import schema as s
from ..agent.turn import AgentSession
from ..host.audit.redaction import Redactor
from .connections import CONNECT, McpFailure, ServerConnection, one_line, shortened
from .contents import PromptMessage, ToolResult, messages_of, resource_of, result_of
from .credentials import redactor_of
from .listings import (
    PromptInfo,
    ResourceTemplate,
    ToolInfo,
    offers,
    prompts_of,
    resources_of,
    templates_of,
    tools_of,
)
from .questions import Sampler, ServerQuestions

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.client import Client

log = logging.getLogger("dragoman")

CALL = 600.0  # seconds a tool may take
READ = 60.0  # seconds for a list, a resource, a prompt or a completion
LONGEST_PAUSE = 60.0  # seconds before a repeatedly lost server is tried once more

T = TypeVar("T")
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Approve = Callable[[s.McpServer], Awaitable[None]]  # raises McpFailure


class SessionServer:
    """A server of a session.

    A lost connection is restored with the next call: at once for the first time, and after a growing pause if no
    call worked in between.  A call that may have had an effect is not repeated.  `approve` is awaited before each
    start; `changed` is called when the server reports changes of its tools, prompts or resources.
    """

    def __init__(
        self,
        config: s.McpServer,
        session: AgentSession,
        *,
        sampler: Sampler | None = None,
        approve: Approve | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        self.name = config.name
        self.tools: Sequence[ToolInfo] = ()
        self.prompts: Sequence[PromptInfo] = ()
        self._config = config
        self._session = session
        self._approve = approve
        self._changed = changed
        self._redactor: Redactor = redactor_of(config)
        self._questions = ServerQuestions(config.name, session, self._redactor, sampler)
        self._connection: ServerConnection | None = None
        self._mending = asyncio.Lock()
        self._losses = 0  # since the last successful call
        self._not_before = 0.0
        self._stale: set[str] = set()  # the lists that the server reported as changed
        self._is_closed = False

    def clean(self, text: str) -> str:
        """A text of the server without its credentials."""
        return self._redactor.known(text)

    def _failed(self, why: str) -> McpFailure:
        return McpFailure(self.clean(why))

    # The connection

    async def start(self) -> None:
        """Connect and fetch the server's lists; raises McpFailure."""
        if self._approve:
            await self._approve(self._config)
        if self._is_closed:  # while the previous connection was being closed
            raise McpFailure(f"the MCP server {self.name!r} is gone")
        connection = ServerConnection(self._config, self._session, self._questions, self._note_change)
        self._connection = connection  # from now on, `close` ends it
        try:
            await connection.open()
        except McpFailure as exc:
            raise self._failed(str(exc)) from None
        try:
            async with asyncio.timeout(CONNECT):
                await self._learn(connection, {"tools", "prompts"})
        except BaseException as exc:
            await connection.close()
            if isinstance(exc, McpFailure) or not isinstance(exc, Exception):
                raise
            raise self._failed(
                f"the MCP server {self.name!r} does not list its tools: {one_line(exc, self.clean)}"
            ) from exc

    @property
    def is_connected(self) -> bool:
        """Whether the connection seems open; a lost one is restored with the next call."""
        return self._connection is not None and not self._connection.is_lost

    def _note_change(self, kind: str) -> None:
        self._stale.add(kind)
        if self._changed:
            self._changed(kind)

    async def refresh(self) -> None:
        """Fetch the lists again that the server reported as changed."""
        connection = self._connection
        if not self._stale or connection is None or connection.is_lost:
            return
        stale, self._stale = self._stale, set()
        try:
            async with asyncio.timeout(CONNECT):
                await self._learn(connection, stale)
        except Exception as exc:  # the known lists stay in use; a call shows the problem
            log.debug("the MCP server %r does not tell its tools: %s", self.name, one_line(exc, self.clean))

    async def _learn(self, connection: ServerConnection, kinds: set[str]) -> None:
        if "tools" in kinds:
            self.tools = await connection.use(lambda client: tools_of(client, self.name, self.clean))
        if "prompts" in kinds:
            self.prompts = await connection.use(self._listed("prompts", prompts_of, self.name))

    def _listed(
        self, kind: str, read: Callable[..., Awaitable[list[T]]], *more: str
    ) -> "Callable[[Client], Awaitable[list[T]]]":
        async def listed(client: "Client") -> list[T]:
            return await read(client, *more, self.clean) if offers(client, kind) else []

        return listed

    async def close(self) -> None:
        """Hang up; a server that was started here ends."""
        self._is_closed = True
        if self._connection:
            await self._connection.close()

    async def _connected(self) -> ServerConnection:
        """The connection, restored if it is lost; raises McpFailure."""
        async with self._mending:
            connection = self._connection
            if connection is None or self._is_closed:
                raise McpFailure(f"the MCP server {self.name!r} is gone")
            if not connection.is_lost:
                return connection
            if (pause := self._not_before - time.monotonic()) > 0:
                raise McpFailure(
                    f"the MCP server {self.name!r} is gone; it is tried again in {pause:.0f} s at the earliest"
                )
            self._losses += 1
            self._not_before = time.monotonic() + min(
                LONGEST_PAUSE, 2.0 ** (self._losses - 1) if self._losses > 1 else 0
            )
            await connection.close()
            await self.start()
            assert self._connection
            return self._connection

    # Requests

    async def call(self, tool: str, arguments: Mapping[str, object], tell: Progress | None = None) -> ToolResult:
        """Call a tool; raises McpFailure with the server's message if it failed."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            if tell:
                await tell(progress, total, message and self.clean(message))

        async def request(client: "Client") -> "types.CallToolResult":
            from .tasks import called_as_task, telling

            telling.set(told if tell else None)
            if any(each.is_task for each in self.tools if each.name == tool):
                return await called_as_task(client, tool, arguments)
            return await client.call_tool(
                tool, dict(arguments), read_timeout_seconds=CALL, progress_callback=told if tell else None
            )

        answer = await self._asked(tool, request, is_call=True)
        result = result_of(answer, self.clean)
        if answer.is_error:
            raise McpFailure(shortened(result.text) or f"{tool} failed")
        return result

    async def resources(self) -> list[s.ResourceLink]:
        """The resources the server lists; raises McpFailure."""
        found: list[s.ResourceLink] = await self._asked("its resources", self._listed("resources", resources_of))
        return found

    async def templates(self) -> list[ResourceTemplate]:
        """The templates of resources; raises McpFailure."""
        read = self._listed("resources", templates_of, self.name)
        found: list[ResourceTemplate] = await self._asked("its templates", read)
        return found

    async def read(self, uri: str) -> list[s.EmbeddedResource]:
        """Read a resource, which may hold others; raises McpFailure."""
        answer = await self._asked(uri, lambda client: client.read_resource(uri))
        return [s.EmbeddedResource(resource=resource_of(each, self.clean)) for each in answer.contents]

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
        """The messages of a prompt with these arguments; raises McpFailure."""
        answer = await self._asked(name, lambda client: client.get_prompt(name, dict(arguments)))
        return messages_of(answer.messages, self.clean)

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        """Completions for the value of a prompt's argument; raises McpFailure."""
        from mcp_types import PromptReference

        ref = PromptReference(type="ref/prompt", name=prompt)
        answer = await self._asked(prompt, lambda client: client.complete(ref, {"name": argument, "value": value}))
        return [self.clean(each) for each in answer.completion.values]

    async def _asked(self, what: str, request: "Callable[[Client], Awaitable[T]]", *, is_call: bool = False) -> T:
        """The library's result; a server that had forgotten us, and so did nothing, gets the request again."""
        seconds = None if is_call else READ  # a call has a limit of its own
        for is_last in (False, True):
            connection = await self._connected()
            try:
                async with asyncio.timeout(seconds) as limit:
                    answer = await connection.use(request)
                break
            except asyncio.CancelledError:
                raise
            except Exception as exc:
                if limit.expired():
                    raise self._failed(f"{self.name}/{what} failed: no answer within {seconds:g} s") from exc
                if connection.was_refused and not is_last:
                    continue
                if isinstance(exc, McpFailure):
                    raise
                why = f"{one_line(exc, self.clean)}{connection.told_besides()}"
                raise self._failed(f"{self.name}/{what} failed: {why}") from exc
        self._losses = 0
        return answer


async def connected(config: s.McpServer, session: AgentSession) -> SessionServer:
    """Start or reach a server of a session."""
    server = SessionServer(config, session)
    await server.start()
    return server
