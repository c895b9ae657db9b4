"""A running server that a client offers; a task of its own holds it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ... import __version__
from ... import schema as s
from ...foundation.owning import own
from ...foundation.programs import search_path
from ..transports.answers import OpenRequests
from ..transports.processes import process_streams

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.session import ServerSession
    from mcp.shared.direct_dispatcher import DirectDispatcher

    LibraryServer: TypeAlias = Server[Any]
    Started: TypeAlias = tuple[LibraryServer, DirectDispatcher]  # and a session with it without a handshake

R = TypeVar("R", bound="types.Result")


class RunningServer:
    """A server that starts with its first use and ends with `close` or by itself."""

    def __init__(self, source: object, name: str) -> None:
        self._source, self._name = source, name
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Started] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    async def started(self) -> "Started":
        """The library's server and a session with it without a handshake; raises why it did not start."""
        async with self._starting:
            if self._owner is None or (self._owner.done() and not self._is_closed):
                self._closing = asyncio.Event()
                self._ready = asyncio.get_running_loop().create_future()
                self._owner = own(self._own(self._ready), f"MCP server {self._name}")
            assert self._ready
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End it."""
        self._is_closed = True
        self._closing.set()
        if self._owner:
            await asyncio.wait([self._owner])

    async def _own(self, ready: "asyncio.Future[Started]") -> None:
        import anyio
        from mcp.server.runner import modern_on_request
        from mcp.shared.direct_dispatcher import create_direct_dispatcher_pair

        try:
            async with _served(self._source, self._name, self._closing) as server:
                near, far = create_direct_dispatcher_pair(raise_handler_exceptions=False)
                async with server.lifespan(server) as state, anyio.create_task_group() as group:
                    await group.start(far.run, modern_on_request(server, state), _ignore)
                    await group.start(near.run, _ignore, _ignore)
                    ready.set_result((server, near))
                    await self._closing.wait()
                    near.close()
                    far.close()
        except Exception as exc:
            if not ready.done():
                ready.set_exception(exc)
        finally:
            ready.cancel()
            if not ready.cancelled():
                ready.exception()  # even if nobody waits for it


async def _ignore(*_: object) -> dict[str, object]:
    """Ignore messages that belong to no request, and refuse requests outside of one."""
    return {}


@contextlib.asynccontextmanager
async def _served(source: object, name: str, gone: asyncio.Event) -> "AsyncIterator[LibraryServer]":
    if isinstance(source, s.McpServerStdio):
        async with forwarding(source, gone) as server:
            yield server
        return
    yield lowlevel(source)


def lowlevel(source: object) -> "LibraryServer":
    """The library's low-level server of an object; raises TypeError for anything else."""
    from mcp.server import MCPServer
    from mcp.server.lowlevel import Server

    if isinstance(source, MCPServer):
        return source._lowlevel_server
    if isinstance(source, Server):
        return source
    raise TypeError(f"mcp_servers has servers of the official library and configurations, and not {source!r}")


def name_of(source: object) -> str:
    """The name of a server, whether an object or a process; raises TypeError for anything else."""
    return source.name if isinstance(source, s.McpServerStdio) else lowlevel(source).name


@contextlib.asynccontextmanager
async def forwarding(config: s.McpServerStdio, gone: asyncio.Event) -> "AsyncIterator[LibraryServer]":
    """A server that forwards to a process started here."""
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.server.lowlevel import Server

    variables = {"PATH": search_path(), **{variable.name: variable.value for variable in config.env}}
    streams = process_streams(
        [config.command, *config.args],
        os.getcwd(),
        variables,
        ended=gone.set,
        last_words=[],
        requests=OpenRequests(),
    )
    info = types.Implementation(name="dragoman", version=__version__)
    asked = CallingAgents()
    asking = {"elicitation_callback": asked.elicit, "sampling_callback": asked.sample}
    async with Client(server=streams, client_info=info, cache=None, **asking) as client:  # type: ignore[arg-type]

        async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            with asked.during(context.session):
                return await client.call_tool(
                    params.name, params.arguments, progress_callback=context.session.report_progress
                )

        offers = client.server_capabilities
        handlers: dict[str, Any] = {}
        if offers.tools:
            handlers |= {"on_list_tools": _listing(client.list_tools), "on_call_tool": call}
        if offers.resources:
            handlers |= {
                "on_list_resources": _listing(client.list_resources),
                "on_list_resource_templates": _listing(client.list_resource_templates),
                "on_read_resource": lambda _, params: client.read_resource(params.uri),
            }
        if offers.prompts:
            handlers |= {
                "on_list_prompts": _listing(client.list_prompts),
                "on_get_prompt": lambda _, params: client.get_prompt(params.name, params.arguments),
            }
        if offers.completions:
            handlers["on_completion"] = lambda _, params: client.session.complete(
                params.ref, params.argument.model_dump(), params.context and params.context.arguments
            )
        yield Server(config.name, version=__version__, **handlers)


class CallingAgents:
    """The agents whose calls a process works on; the newest one that can answer gets its questions."""

    def __init__(self) -> None:
        self._sessions: list[ServerSession] = []

    @contextlib.contextmanager
    def during(self, session: "ServerSession") -> Iterator[None]:
        """Note a running call."""
        self._sessions.append(session)
        try:
            yield
        finally:
            self._sessions.remove(session)

    async def elicit(
        self, context: object, params: "types.ElicitRequestParams"
    ) -> "types.ElicitResult | types.ErrorData":
        """Pass a question to the user on."""
        from mcp_types import ElicitRequest, ElicitResult

        return await self._ask(ElicitRequest(params=params), ElicitResult)

    async def sample(
        self, context: object, params: "types.CreateMessageRequestParams"
    ) -> "types.CreateMessageResult | types.ErrorData":
        """Pass a question to a model on."""
        from mcp_types import CreateMessageRequest, CreateMessageResult

        return await self._ask(CreateMessageRequest(params=params), CreateMessageResult)

    async def _ask(
        self, request: "types.ElicitRequest | types.CreateMessageRequest", kind: type[R]
    ) -> "R | types.ErrorData":
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR, ErrorData

        session = next((each for each in reversed(self._sessions) if each.can_send_request), None)
        if session is None:
            return ErrorData(code=INTERNAL_ERROR, message="there is no agent that can be asked")
        try:
            return await session.send_request(request, kind)
        except MCPError as exc:
            return exc.error
        except ValueError as exc:
            return ErrorData(code=INTERNAL_ERROR, message=f"the agent's answer cannot be read: {exc}"[:300])


def _listing(ask: Callable[..., Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    return lambda _, params: ask(cursor=params.cursor if params else None)
