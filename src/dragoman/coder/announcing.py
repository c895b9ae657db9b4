"""A tool call as the client sees it, from the moment the model begins to write it."""

import contextlib
import json
import re
from collections.abc import Sequence

from .. import schema as s
from ..agent.runs import ToolRun
from ..agent.turn import Turn
from ..host.display import visible
from .context.history import Part, TextPart, sound
from .markdown import fenced
from .tools import Tool
from .workplace import Workplace

MAX_SHOWN = 4000  # characters of a result that the user is shown
MAX_TITLE = 500
MAX_LOOKED_AT = 4096  # characters of arguments that are searched for the subject of a call
_SUBJECT = re.compile(r'"(path|command|pattern|url|task|question)"\s*:\s*("(?:[^"\\]|\\.)*")')


class Announced:
    """Announced pending when the model names the tool; ended exactly once."""

    def __init__(self, name: str, run: ToolRun) -> None:
        self._name = name
        self.run = run
        self._written = ""
        self._is_told = False  # the subject of the call is on screen
        self._ended = False

    @classmethod
    async def made(cls, turn: Turn, name: str, kind: s.ToolKind) -> "Announced":
        return cls(name, await turn.tool(visible(name, limit=MAX_TITLE), kind=kind, name=name).__aenter__())

    async def grow(self, more: str, place: Workplace) -> None:
        """Note more of the arguments; show the subject of the call as soon as it is known."""
        if self._is_told:
            return
        self._written += more
        if found := _SUBJECT.search(self._written):
            self._is_told = True
            with contextlib.suppress(ValueError):  # it need not be JSON
                await self._tell(found[1], sound(json.loads(found[2], strict=False)), place)
        elif len(self._written) > MAX_LOOKED_AT:
            self._is_told = True  # it is shown once the arguments are complete

    async def _tell(self, kind: str, subject: str, place: Workplace) -> None:
        if kind != "path":
            await self.run.update(title=visible(f"{self._name}: {subject}", limit=MAX_TITLE))
            return
        path = place.session.path(subject)
        title = visible(f"{self._name}: {place.shown(path)}", limit=MAX_TITLE)
        await self.run.update(title=title, locations=[s.ToolCallLocation(path=path)])

    async def show(self, tool: Tool, parts: Sequence[Part]) -> None:
        """Show a tool's findings; the editor itself shows files that were read or changed."""
        if tool.kind in ("search", "fetch", "other"):
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
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
