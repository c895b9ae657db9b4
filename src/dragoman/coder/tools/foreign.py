"""Tools of the session's MCP servers, behind the same gate as our own."""

import base64
import itertools
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ...host.display import visible
from ...host.operations import McpTool
from ...mcp import McpFailure, SessionServer, ToolContent, ToolInfo
from ..context.history import Media, Part, TextPart, sound
from ..model.port import ToolSpec
from ..model.schemas import schema_fault
from ..toolbox import Foreign
from ..workplace import Workplace
from .files import MAX_MEDIA
from .tool import Failed, Tool, Work, said

MAX_KIND = 100  # letters of a media type
MAX_NAME = 64  # what providers take


class McpCall(Tool):
    """A call of a server's tool."""

    name = "mcp"

    server: SessionServer
    info: ToolInfo
    arguments: Mapping[str, object]

    def title(self, place: Workplace) -> str:
        return f"{self.server.name}: {self.info.name}"

    async def run(self, work: Work) -> Sequence[Part]:
        operation = McpTool(server=self.server.name, tool=self.info.name, arguments=dict(self.arguments))
        await work.place.gate.admit(work.turn, work.call, operation, reads_only=self.info.reads_only)
        await work.call.start()
        try:
            given = await self.server.call(self.info.name, self.arguments)
        except McpFailure as exc:
            raise Failed(str(exc)) from exc
        text = "\n".join(piece.text for piece in given if piece.text)
        media = [part for piece in given if piece.data for part in _media(piece, work.takes)]
        return [*(said(work.place, text, work.call.id) if text or not media else ()), *media]


def _media(piece: ToolContent, takes: frozenset[str]) -> list[Part]:
    """A picture or a sound for the model, if it is one that can be sent again with every request."""
    kind = visible(piece.media_type, limit=MAX_KIND)
    if piece.media_type.partition("/")[0] not in takes:
        return [TextPart(f"(something of type {kind}, which you cannot read)")]
    if len(piece.data) > MAX_MEDIA * 4 // 3 + 4:
        return [
            TextPart(f"(something of type {kind} with more than {MAX_MEDIA // 2**20} MiB, too large to be shown)")
        ]
    try:
        base64.b64decode(piece.data, validate=True)
    except ValueError:
        return [TextPart(f"(something of type {kind} that is broken: it is not base64)")]
    return [Media(piece.media_type, piece.data)]


def tools_of(servers: Sequence[SessionServer]) -> tuple[list[Foreign], dict[str, str]]:
    """All tools of all servers, under names that any provider takes; and why some of them cannot be used."""
    found: dict[str, Foreign] = {}
    faults: dict[str, str] = {}
    for server in servers:
        for info in server.tools:
            name = _name(server.name, info.name, {*found, *faults})
            parameters = {"type": "object", "properties": {}, **info.parameters}  # either may be left out
            if fault := schema_fault(parameters):
                faults[name] = f"{info.name} of {server.name} describes its arguments wrongly: {fault}"
                continue
            words = sound(info.description)[:1000].strip() or f"{info.name} of {server.name}"
            found[name] = Foreign(ToolSpec(name, words, parameters), _maker(server, info))
    return list(found.values()), faults


def _maker(server: SessionServer, info: ToolInfo) -> Any:
    return lambda arguments: McpCall(server, info, arguments)


def _name(server: str, tool: str, taken: Container[str]) -> str:
    """What a model calls a tool; two that would be called the same are told apart by a number."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    endings = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    return next(found for end in endings if (found := name[: MAX_NAME - len(end)] + end) not in taken)
