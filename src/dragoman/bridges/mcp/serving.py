"""`dragoman mcp`: the server over stdin and stdout, or over HTTP on this machine."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ...errors import Error
from ...gateway.access.admission import Admission
from ...gateway.access.guard import Guard, local_names
from ...gateway.access.tokens import TokenFile
from ...gateway.serving import CannotListen, introduce_ourselves
from ...gateway.web.routes import RoutedRequest, Routes, WebRoute
from ...host.permissions.engine import Preset
from ...host.processes import Launch
from ...mcp.transports.answers import settled
from .languages import language_tools
from .server import bridged

log = logging.getLogger("dragoman")

HOST = "127.0.0.1"
PATH = "/mcp"


def _offered(agent: Launch | None, workspace: str, preset: Preset) -> AbstractAsyncContextManager[Server[Any]]:
    """The server that drives an agent; without one, that of the language servers."""
    return language_tools(workspace, preset) if agent is None else bridged(agent, workspace, preset)


async def serve_stdio(agent: Launch | None, workspace: str, preset: Preset) -> None:
    """Serve one host over stdin and stdout, until it hangs up; an answer that cannot be read is a failed one."""
    try:
        async with (
            _offered(agent, workspace, preset) as server,
            stdio_server() as (reading, writing),
            settled(reading, ended=lambda: None) as read,
        ):
            await server.run(read, writing, server.create_initialization_options())
    except* BrokenPipeError:
        log.info("the MCP host is gone")


async def serve_http(
    agent: Launch | None, workspace: str, preset: Preset, port: int, state: Path, ready: Callable[[str], None]
) -> None:
    """Serve hosts over HTTP until told to stop; `ready` is called with the URL once they can come."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with mcp_endpoint(agent, workspace, preset, port, state) as url:
        ready(url)
        await stopping.wait()


@asynccontextmanager
async def mcp_endpoint(
    agent: Launch | None, workspace: str, preset: Preset, port: int, state: Path
) -> AsyncIterator[str]:
    """The server over HTTP, for the holders of its token; gives its URL."""
    try:
        from ...transports.remote.server.server import listening
    except ModuleNotFoundError:
        raise Error("`dragoman mcp --http` needs the gateway extra: pip install 'dragoman[gateway]'") from None
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokens = state / "tokens.json"
    if not tokens.exists():
        introduce_ourselves(state, tokens)
    admission, guard = Admission(TokenFile(tokens)), Guard()
    async with _offered(agent, workspace, preset) as server:
        manager = StreamableHTTPSessionManager(server)

        async def answer(request: RoutedRequest) -> None:
            await manager.handle_request(request.scope, request.receive, request.send)

        methods = ("GET", "POST", "DELETE")
        routes = Routes(guard, admission, [WebRoute(method, PATH, "principal", answer) for method in methods])
        async with manager.run():
            try:
                async with listening(routes, HOST, port) as listened:
                    guard.hosts |= local_names(HOST, listened.port)
                    yield f"http://localhost:{listened.port}{PATH}"
            except OSError as exc:
                raise CannotListen(f"cannot listen on {HOST}:{port}: {exc.strerror or exc}") from None
