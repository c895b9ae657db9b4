"""`dragoman cursor`: set up the bridge from the command line, and end it in order."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from ...errors import Error
from ...foundation.directories import LOCAL_TOKEN, state_directory
from ...gateway.access.admission import Admission
from ...gateway.access.checks import Checks
from ...gateway.access.guard import local_names
from ...gateway.access.tokens import TokenFile
from ...gateway.agents.environment import environment
from ...gateway.agents.upstream import Hosted
from ...gateway.gateway import Gateway, running
from ...gateway.log.sqlite import SqliteEngine
from ...gateway.operations.apart import OwnFiles, keep_apart
from ...gateway.serving import CannotListen, held_state, introduce_ourselves
from ...host.permissions.engine import Preset
from ...host.processes import Launch
from .web import CursorWeb

HOST = "127.0.0.1"
PORT = 37842  # the port that Cursor's patch uses
PAGE = "vscode-file://vscode-app"  # the origin of Cursor's own window
DRAIN = 3.0  # seconds for turns to finish when the bridge is told to stop


class CursorOptions(Struct, kw_only=True):
    """The agents to offer, and who may use them."""

    agents: Mapping[str, Launch]
    state: Path
    port: int = PORT
    tokens: Path | None = None
    origins: Sequence[str] = (PAGE,)
    workspace: str | None = None  # the directory to which sessions are confined
    preset: Preset = "ask"


class CursorBridge(Struct):
    """A running bridge: its address, and the file with its token."""

    url: str
    token_file: Path | None


def cursor_directory() -> Path:
    """The bridge's directory by default."""
    return state_directory() / "cursor"


async def serve_cursor(options: CursorOptions, ready: Callable[[CursorBridge], None]) -> None:
    """Serve until told to stop; `ready` is called once Cursor can connect."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with cursor_bridge(options) as bridge:
        ready(bridge)
        await stopping.wait()


@asynccontextmanager
async def cursor_bridge(options: CursorOptions) -> AsyncIterator[CursorBridge]:
    """Serve a bridge until the block is left."""
    with held_state(options.state) as held:
        hosted = {name: _hosted(launch, options) for name, launch in options.agents.items()}
        tokens = options.tokens or options.state / "tokens.json"
        gateway = Gateway(SqliteEngine(options.state, "power"), hosted, checks=Checks(workspace=options.workspace))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(running(gateway))
            await keep_apart(OwnFiles(options.state, options.tokens), gateway.processes, gateway.workspaces)
            if options.tokens is None and not tokens.exists():
                introduce_ourselves(options.state, tokens)
            titles = {name: launch.title or name for name, launch in options.agents.items()}
            web = CursorWeb(gateway, Admission(TokenFile(tokens)), titles, options.origins)
            try:
                from ...transports.remote.server.server import listening

                server = await stack.enter_async_context(listening(web, HOST, options.port))
            except ModuleNotFoundError:
                raise Error("`dragoman cursor` needs the gateway extra: pip install 'dragoman[gateway]'") from None
            except OSError as exc:
                raise CannotListen(f"cannot listen on {HOST}:{options.port}: {exc.strerror or exc}") from None
            web.guard.hosts |= local_names(HOST, server.port)
            held.keep()
            try:
                own = None if options.tokens else options.state / LOCAL_TOKEN
                yield CursorBridge(f"http://localhost:{server.port}", own)
            finally:
                await gateway.drain(DRAIN)
                await web.composers.close()


def _hosted(launch: Launch, options: CursorOptions) -> Hosted:
    own_paths = [str(path) for path in (options.state, options.tokens) if path]
    return Hosted(
        target=launch.url or launch.argv,
        env=None if launch.url else environment(launch, own_paths),
        cwd=launch.directory,
        preset=options.preset,
        apart=not launch.url,
        state=str(options.state / "host"),
    )
