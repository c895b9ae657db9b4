"""One connection to an MCP server, owned by a task of its own: opened and closed there, used from anywhere.

The library that speaks MCP is loaded when the first server is connected to.
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from msgspec import Struct

from .. import __version__
from .. import schema as s
from ..errors import Error
from ..turn import AgentSession
from .questions import Questions
from .wires import streams

INSTALL = "pip install 'dragoman[mcp]'"
CONNECT = 30.0  # seconds a server may take to be ready
CALL = 600.0  # seconds a tool may take
MAX_TOOLS = 500
MAX_PAGES = 20
LAST_WORDS = 500  # letters of a server's stderr that are told when it fails


class Failure(Error):
    """A server cannot be reached, or a call of its tool failed; one line says why."""


class ToolInfo(Struct, frozen=True):
    """A tool of a server; `reads_only` is the server's own word for it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    reads_only: bool = False


class Content(Struct, frozen=True):
    """A piece of what a tool gave: text, or base64 data of a media type."""

    text: str = ""
    media_type: str = ""
    data: str = ""


class Server:
    """A server that is connected; `close` lets go of it."""

    def __init__(self, config: s.McpServer, session: AgentSession) -> None:
        self.name = config.name
        self.tools: Sequence[ToolInfo] = ()
        self._config = config
        self._session = session
        self._questions = Questions(config.name, session)
        self._library: Any = None  # its client, while connected
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and learn the server's tools; raises Failure."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")
        try:
            async with asyncio.timeout(CONNECT):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise Failure(f"the MCP server {self.name!r} does not answer") from None
        except BaseException:
            await self.close()
            raise

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> list[Content]:
        """Call a tool; raises Failure with what the server said when it failed."""
        if self._library is None:
            raise Failure(f"the MCP server {self.name!r} is gone")
        asking = asyncio.ensure_future(self._library.call_tool(tool, dict(arguments), read_timeout_seconds=CALL))
        assert self._owner
        try:
            with self._questions.welcome():
                await asyncio.wait([asking, self._owner], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Failure(f"the MCP server {self.name!r} hung up")
            answer = asking.result()
        except (Failure, asyncio.CancelledError):
            raise
        except Exception as exc:
            raise Failure(f"{self.name}/{tool} failed: {_line(exc)}") from exc
        finally:
            asking.cancel()
        content = [_content(block) for block in answer.content]
        if answer.is_error:
            raise Failure(" ".join(piece.text for piece in content if piece.text) or f"{tool} failed")
        return content

    async def close(self) -> None:
        """Hang up; a server that was started here ends."""
        self._closing.set()
        if self._owner:
            if not self._ready.done():  # it waits for the server, not for us
                self._owner.cancel()
            await asyncio.wait([self._owner])

    async def _own(self) -> None:
        """Hold the connection open from its beginning to its end, in one task."""
        with tempfile.TemporaryFile("w+", errors="replace") as stderr:
            try:
                # In a thread: the library takes a second to load.
                library = await asyncio.to_thread(_load)
                async with library(**self._settings(stderr)) as client:
                    self.tools = await _tools(client)
                    self._library = client
                    self._ready.set_result(None)
                    await self._closing.wait()
            except asyncio.CancelledError:
                raise
            except BaseException as exc:
                if not self._ready.done():
                    self._ready.set_exception(Failure(_why(self.name, exc, stderr)))
            finally:
                self._library = None

    def _settings(self, stderr: IO[str]) -> Mapping[str, Any]:
        from mcp_types import Implementation

        asked = {"elicitation_callback": self._questions.ask, "message_handler": self._questions.hear}
        return {
            "server": streams(self._config, self._session, stderr),
            "client_info": Implementation(name="dragoman", version=__version__),
            "cache": None,
            **(asked if self._questions.can_be_asked else {}),
        }


async def connected(config: s.McpServer, session: AgentSession) -> Server:
    """Start or reach a server of a session."""
    server = Server(config, session)
    await server.start()
    return server


def _load() -> Any:
    from mcp.client.client import Client

    return Client


async def _tools(client: Any) -> list[ToolInfo]:
    found: list[ToolInfo] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += [_info(tool) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_TOOLS:
            break
    return found[:MAX_TOOLS]


def _info(tool: Any) -> ToolInfo:
    hints = tool.annotations
    return ToolInfo(tool.name, tool.description or "", tool.input_schema, bool(hints and hints.read_only_hint))


def _content(block: Any) -> Content:
    match block.type:
        case "text":
            return Content(block.text)
        case "image" | "audio":
            return Content(media_type=block.mime_type, data=block.data)
        case "resource" if hasattr(block.resource, "text"):
            return Content(block.resource.text)
        case "resource":
            kind = block.resource.mime_type or "application/octet-stream"
            return Content(media_type=kind, data=block.resource.blob)
        case "resource_link":
            return Content(f"{block.name}: {block.uri}")
        case kind:
            return Content(f"({kind})")


def _why(name: str, exc: BaseException, stderr: IO[str]) -> str:
    if isinstance(exc, ImportError):
        return f"the library that speaks MCP is not installed ({exc.name}): {INSTALL}"
    stderr.seek(0)
    said = " ".join(stderr.read()[-LAST_WORDS:].split())
    return f"the MCP server {name!r} cannot be used: {_line(exc)}{f'; it said: {said}' if said else ''}"


def _line(exc: BaseException) -> str:
    """An exception in one line; of a group the first that says something."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return (str(exc) or type(exc).__name__).splitlines()[0][:300]
