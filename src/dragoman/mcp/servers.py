"""MCP servers of a session: their tools and calls, over one connection that is made again when it is lost."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from .. import schema as s
from ..agent.turn import AgentSession
from .connections import CONNECT, McpFailure, ServerConnection, one_line, shortened
from .questions import ServerQuestions

log = logging.getLogger("dragoman")

CALL = 600.0  # seconds a tool may take
MAX_TOOLS = 500
MAX_PAGES = 20
LONGEST_PAUSE = 60.0  # seconds before a server that was lost again and again is tried once more


class ToolInfo(Struct, frozen=True):
    """A tool of a server; `reads_only` is the server's own word for it."""

    name: str
    description: str
    parameters: Mapping[str, object]
    reads_only: bool = False


class ToolContent(Struct, frozen=True):
    """A piece of what a tool gave: text, or base64 data of a media type."""

    text: str = ""
    media_type: str = ""
    data: str = ""


class SessionServer:
    """A server as a session has it.

    A connection that is lost is made again with the next call, at once for the first time and after a growing pause
    when no call worked in between.  A call that may have had an effect is not made again.
    """

    def __init__(self, config: s.McpServer, session: AgentSession) -> None:
        self.name = config.name
        self.tools: Sequence[ToolInfo] = ()
        self._config = config
        self._session = session
        self._questions = ServerQuestions(config.name, session)
        self._connection: ServerConnection | None = None
        self._mending = asyncio.Lock()
        self._losses = 0  # since the last call that worked
        self._not_before = 0.0
        self._is_stale = False  # the server said that its tools changed
        self._is_closed = False

    async def start(self) -> None:
        """Connect and learn the server's tools; raises Failure."""
        if self._is_closed:  # while the connection before was being closed
            raise McpFailure(f"the MCP server {self.name!r} is gone")
        connection = ServerConnection(self._config, self._session, self._questions, self._note_change)
        self._connection = connection  # from now on `close` ends it
        await connection.open()
        try:
            async with asyncio.timeout(CONNECT):
                self.tools = await connection.use(_tools)
        except BaseException as exc:
            await connection.close()
            if isinstance(exc, McpFailure) or not isinstance(exc, Exception):
                raise
            raise McpFailure(f"the MCP server {self.name!r} does not tell its tools: {one_line(exc)}") from exc

    @property
    def is_connected(self) -> bool:
        """Whether the connection is known to be there; one that is not is made again with the next call."""
        return self._connection is not None and not self._connection.is_lost

    def _note_change(self) -> None:
        self._is_stale = True

    async def refresh(self) -> None:
        """Learn the tools anew if the server said that they changed."""
        connection = self._connection
        if not self._is_stale or connection is None or connection.is_lost:
            return
        self._is_stale = False
        try:
            async with asyncio.timeout(CONNECT):
                self.tools = await connection.use(_tools)
        except Exception as exc:  # those that are known will do; a call shows what is the matter
            log.debug("the MCP server %r does not tell its tools: %s", self.name, one_line(exc))

    async def call(self, tool: str, arguments: Mapping[str, object]) -> list[ToolContent]:
        """Call a tool; raises Failure with what the server said when it failed."""
        for is_last in (False, True):
            connection = await self._connected()
            try:
                answer = await connection.use(
                    lambda client: client.call_tool(tool, dict(arguments), read_timeout_seconds=CALL)
                )
                break
            except asyncio.CancelledError:
                raise
            except Exception as exc:
                if connection.was_refused and not is_last:
                    continue
                if isinstance(exc, McpFailure):
                    raise
                why = f"{one_line(exc)}{connection.told_besides()}"
                raise McpFailure(f"{self.name}/{tool} failed: {why}") from exc
        self._losses = 0
        content = [_content(block) for block in answer.content]
        if answer.is_error:
            raise McpFailure(shortened(" ".join(piece.text for piece in content if piece.text)) or f"{tool} failed")
        if answer.structured_content is not None and not any(piece.text for piece in content):
            content.append(ToolContent(json.dumps(answer.structured_content, ensure_ascii=False, indent=1)))
        return content

    async def close(self) -> None:
        """Hang up; a server that was started here ends."""
        self._is_closed = True
        if self._connection:
            await self._connection.close()

    async def _connected(self) -> ServerConnection:
        """The connection, made again if it is lost; raises Failure."""
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


async def connected(config: s.McpServer, session: AgentSession) -> SessionServer:
    """Start or reach a server of a session."""
    server = SessionServer(config, session)
    await server.start()
    return server


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


def _content(block: Any) -> ToolContent:
    match block.type:
        case "text":
            return ToolContent(block.text)
        case "image" | "audio":
            return ToolContent(media_type=block.mime_type, data=block.data)
        case "resource" if hasattr(block.resource, "text"):
            return ToolContent(block.resource.text)
        case "resource":
            kind = block.resource.mime_type or "application/octet-stream"
            return ToolContent(media_type=kind, data=block.resource.blob)
        case "resource_link":
            return ToolContent(f"{block.name}: {block.uri}")
        case kind:
            return ToolContent(f"({kind})")
