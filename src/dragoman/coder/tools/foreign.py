"""The tools of the session's MCP servers, under the same permissions as our own."""

import base64
import itertools
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ... import schema as s
from ...host.display import visible
from ...host.operations import McpTool
from ...mcp import McpFailure, SessionTools, ToolInfo
from ...mcp.contents import words_of
from ..context.history import Media, Part, TextPart, sound
from ..model.port import ToolSpec
from ..model.schemas import schema_fault
from ..toolbox import ForeignTool
from ..workplace import Workplace
from .files import MAX_MEDIA
from .tool import Failed, Tool, Work, said

MAX_KIND = 100  # characters of a media type
MAX_NAME = 64  # characters of a name, as providers accept them


class McpCall(Tool):
    """A call of a server's tool."""

    name = "mcp"

    tools: SessionTools
    info: ToolInfo
    arguments: Mapping[str, object]

    def title(self, place: Workplace) -> str:
        return f"{self.info.server}: {self.info.name}"

    async def run(self, work: Work) -> Sequence[Part]:
        operation = McpTool(server=self.info.server, tool=self.info.name, arguments=dict(self.arguments))
        await work.place.permissions.admit(work.turn, work.call, operation, reads_only=self.info.reads_only)
        await work.call.start()
        try:
            given = await self.tools.run(work.call, self.info, self.arguments)
        except McpFailure as exc:
            raise Failed(str(exc)) from exc
        text = "\n".join(filter(None, map(words_of, given.content)))
        media = [part for block in given.content for part in _media(block, work.takes)]
        return [*(said(work.place, text, work.call.id) if text or not media else ()), *media]


def _media(block: s.ContentBlock, takes: frozenset[str]) -> list[Part]:
    """A picture or a sound for the model, if it is small enough to be sent with every later request."""
    match block:
        case s.ImageContent(data=data, mime_type=media_type) | s.AudioContent(data=data, mime_type=media_type):
            pass
        case s.EmbeddedResource(resource=s.BlobResourceContents(blob=data, mime_type=given)):
            media_type = given or "application/octet-stream"
        case _:
            return []
    kind = visible(media_type, limit=MAX_KIND)
    if media_type.partition("/")[0] not in takes:
        return [TextPart(f"(something of type {kind}, which you cannot read)")]
    if len(data) > MAX_MEDIA * 4 // 3 + 4:
        return [
            TextPart(f"(something of type {kind} with more than {MAX_MEDIA // 2**20} MiB, too large to be shown)")
        ]
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return [TextPart(f"(something of type {kind} that is broken: it is not base64)")]
    return [Media(media_type, data)]


def tools_of(tools: SessionTools) -> tuple[list[ForeignTool], dict[str, str]]:
    """The tools of all servers, under names that every provider accepts, and why some cannot be used."""
    found: dict[str, ForeignTool] = {}
    faults: dict[str, str] = {}
    for info in tools:
        name = _name(info.server, info.name, {*found, *faults})
        parameters = {"type": "object", "properties": {}, **info.parameters}  # either may be left out
        if fault := schema_fault(parameters):
            faults[name] = f"{info.name} of {info.server} describes its arguments wrongly: {fault}"
            continue
        words = sound(info.description)[:1000].strip() or f"{info.name} of {info.server}"
        found[name] = ForeignTool(ToolSpec(name, words, parameters), _maker(tools, info))
    return list(found.values()), faults


def _maker(tools: SessionTools, info: ToolInfo) -> Any:
    return lambda arguments: McpCall(tools, info, arguments)


def _name(server: str, tool: str, taken: Container[str]) -> str:
    """The name of a tool for the model; tools with the same name get numbers."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    endings = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    return next(found for end in endings if (found := name[: MAX_NAME - len(end)] + end) not in taken)
