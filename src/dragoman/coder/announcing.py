"""A tool call as the client sees it, from the moment the model begins to write it."""

import json
import re
from collections.abc import Sequence

from .. import schema as s
from ..host.display import visible
from ..turn import ToolRun, Turn
from .history import Part, Text, sound
from .markdown import fenced
from .tools import Tool
from .workplace import Workplace

MAX_SHOWN = 4000  # letters of a result the user is shown
MAX_TITLE = 500
_PATH = re.compile(r'"path"\s*:\s*("(?:[^"\\]|\\.)*")')


class Announced:
    """Announced pending when the model names the tool; ended exactly once."""

    def __init__(self, run: ToolRun) -> None:
        self.run = run
        self._written = ""
        self._followed = False
        self._ended = False

    @classmethod
    async def made(cls, turn: Turn, name: str, kind: s.ToolKind) -> "Announced":
        return cls(await turn.tool(visible(name, limit=MAX_TITLE), kind=kind, name=name).__aenter__())

    async def grow(self, more: str, place: Workplace) -> None:
        """The model wrote more of the arguments: as soon as they name a file, the editor can follow."""
        if self._followed:
            return
        self._written += more
        if found := _PATH.search(self._written):
            self._followed = True
            path = place.session.path(sound(json.loads(found[1])))
            await self.run.update(locations=[s.ToolCallLocation(path=path)])

    async def show(self, tool: Tool, parts: Sequence[Part]) -> None:
        """Show what a tool found; what it read or changed the editor shows itself."""
        if tool.kind in ("search", "fetch", "other"):
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            if text:
                await self.run.text(fenced(text[:MAX_SHOWN]))

    async def end(self, failure: str | None, raw_input: object = s.UNSET) -> None:
        if self._ended:
            return
        self._ended = True
        if raw_input is not s.UNSET:
            await self.run.update(raw_input=raw_input)
        if failure is not None:
            self.run.fail(failure)
        await self.run.__aexit__(None, None, None)
