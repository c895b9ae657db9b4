"""The tools on offer in a session: those of the agent and those of the session's MCP servers."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..foundation.documents import Document
from .context.history import ToolUse
from .model.port import ToolSpec
from .modes import MODES
from .tools import (
    ApplyPatch,
    CommandOutput,
    EditFile,
    ExitPlan,
    ListFiles,
    ReadFile,
    RunCommand,
    Search,
    StopCommand,
    Task,
    Tool,
    UpdatePlan,
    WriteFile,
    spec_of,
)
from .tools.tool import Failed

CHANGING = (EditFile, WriteFile, RunCommand, CommandOutput, StopCommand)  # two are for the third's commands
USUAL = (ReadFile, ListFiles, Search, UpdatePlan, Task, *CHANGING, ExitPlan)

_PLACE = re.compile(
    r"(?:tools|function_?declarations)[.\[](\d{1,4})(?!.*(?:tools|function_?declarations)[.\[]\d)", re.I
)


class ForeignTool(Struct, frozen=True):
    """A tool of a server: its description for the model, and a function that turns a call into a tool of ours."""

    spec: ToolSpec
    made: Callable[[Mapping[str, object]], Tool]


class Toolbox:
    """The tools by name: some of our own, and foreign ones."""

    def __init__(self, kinds: Iterable[type[Tool]], foreign: Iterable[ForeignTool] = ()) -> None:
        self._kinds: Mapping[str, type[Tool]] = {kind.name: kind for kind in kinds}
        self.set_foreign(foreign)

    def set_foreign(self, foreign: Iterable[ForeignTool]) -> None:
        """Replace the foreign tools."""
        self._foreign = {tool.spec.name: tool for tool in foreign}

    def specs(self, mode: str) -> list[ToolSpec]:
        """The tools for the model; tools that a mode forbids are left out, and refused if called anyway."""
        left_out = {kind.name for kind in (*CHANGING, ApplyPatch)} if MODES[mode].changes == "never" else set()
        if mode != "plan":
            left_out.add(ExitPlan.name)
        ours = [spec_of(kind) for name, kind in self._kinds.items() if name not in left_out]
        return [*ours, *(tool.spec for tool in self._foreign.values())]

    def refused_tool(self, words: str, mode: str) -> str | None:
        """The foreign tool that a provider's refusal names, by its name or by its position in the offer."""
        if named := next((name for name in self._foreign if re.search(rf"\b{re.escape(name)}\b", words)), None):
            return named
        place = _PLACE.search(words)
        names = [spec.name for spec in self.specs(mode)]
        name = names[int(place[1])] if place and int(place[1]) < len(names) else None
        return name if name in self._foreign else None

    def drop(self, name: str) -> None:
        """Stop offering a foreign tool."""
        self._foreign.pop(name, None)

    def kind_of(self, name: str) -> Any:
        """The kind of a tool by its name, until its arguments are known."""
        return self._kinds[name].kind if name in self._kinds else "other"

    def tool(self, call: ToolUse) -> Tool:
        """A call as a tool with its arguments; raises Failed with a message that helps the model to correct it."""
        foreign = self._foreign.get(call.name)
        if foreign is None and call.name not in self._kinds:
            there = ", ".join([*self._kinds, *self._foreign])
            raise Failed(f"There is no tool {call.name!r}; there are: {there}.")
        arguments = arguments_of(call)
        if foreign is not None:
            return foreign.made(arguments)
        try:
            tool = msgspec.convert(arguments, self._kinds[call.name], strict=False)
        except msgspec.ValidationError as exc:
            raise Failed(f"The arguments do not fit {call.name}: {exc}. Nothing was done.") from exc
        if any("\0" in getattr(tool, field, "") for field in ("path", "cwd", "command")):
            raise Failed("No path and no command can hold a NUL character; nothing was done.")
        return tool


def arguments_of(call: ToolUse) -> Document:
    """The arguments of a call; raises Failed with a message that helps the model to correct them."""
    try:
        arguments = json.loads(call.arguments or "{}")
        msgspec.json.encode(arguments)  # JSON can hold a lone surrogate, which can neither be sent nor stored
    except (ValueError, RecursionError) as exc:
        why = "nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise Failed(f"The arguments are not JSON ({why}); nothing was done. Call {call.name} again.") from exc
    if not isinstance(arguments, dict):
        raise Failed("The arguments are no JSON object; nothing was done.")
    return arguments
