"""Tools of the session's MCP servers, behind the same gate as our own."""

import itertools
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ...host.operations import McpTool
from ...mcp import Content, Failure, Server, ToolInfo
from ..history import Media, Part, Text
from ..model import ToolSpec
from ..toolbox import Foreign
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said

MAX_NAME = 64  # what providers take


class McpCall(Tool):
    """A call of a server's tool."""

    name = "mcp"

    server: Server
    info: ToolInfo
    arguments: Mapping[str, Any]

    def title(self, place: Workplace) -> str:
        return f"{self.server.name}: {self.info.name}"

    async def run(self, work: Work) -> Sequence[Part]:
        operation = McpTool(server=self.server.name, tool=self.info.name, arguments=dict(self.arguments))
        await work.place.gate.admit(work.turn, work.call, operation, reads_only=self.info.reads_only)
        await work.call.start()
        try:
            given = await self.server.call(self.info.name, self.arguments)
        except Failure as exc:
            raise Failed(str(exc)) from exc
        text = "\n".join(piece.text for piece in given if piece.text)
        media = [part for piece in given if piece.data for part in _media(piece, work.takes)]
        return [*(said(work.place, text, work.call.id) if text or not media else ()), *media]


def _media(piece: Content, takes: frozenset[str]) -> list[Part]:
    if piece.media_type.partition("/")[0] in takes:
        return [Media(piece.media_type, piece.data)]
    return [Text(f"(something of type {piece.media_type}, which you cannot read)")]


def tools_of(servers: Sequence[Server]) -> list[Foreign]:
    """All tools of all servers, each under a name of its own that any provider takes."""
    found: dict[str, Foreign] = {}
    for server in servers:
        for info in server.tools:
            name = _name(server.name, info.name, found)
            spec = ToolSpec(name, info.description[:1000] or f"{info.name} of {server.name}", info.parameters)
            found[name] = Foreign(spec, _maker(server, info))
    return list(found.values())


def _maker(server: Server, info: ToolInfo) -> Any:
    return lambda arguments: McpCall(server, info, arguments)


def _name(server: str, tool: str, taken: Container[str]) -> str:
    """What a model calls a tool; two that would be called the same are told apart by a number."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    endings = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    return next(found for end in endings if (found := name[: MAX_NAME - len(end)] + end) not in taken)
