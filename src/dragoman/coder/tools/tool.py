"""The interface of tools, and what they work with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec import Struct

from ... import schema as s
from ...agent.runs import ToolRun
from ...agent.turn import Turn
from ...errors import Error
from ..context.history import Part, TextPart
from ..context.instructions import Skill
from ..model.port import ToolSpec
from ..workplace import Workplace

if TYPE_CHECKING:
    from ..exploring import Assistants

MAX_LETTERS = 50_000  # of a result the model is given
HEAD = 20_000  # of these, how many from the beginning when the middle is left out


class Failed(Error):
    """The tool failed; the text is for the model, `shown` is for a user who has seen the rest."""

    def __init__(self, words: str, shown: str | None = None) -> None:
        super().__init__(words)
        self.shown = words if shown is None else shown


class Work(Struct, frozen=True):
    """All that a tool needs while it runs: the turn, its own call as the client sees it, the place."""

    turn: Turn
    call: ToolRun
    place: Workplace
    skills: Mapping[str, Skill]
    takes: frozenset[str]  # which media the model reads
    set_mode: Callable[[str], Awaitable[None]]
    helpers: "Assistants | None" = None  # a helper has none of its own


class Tool(Struct):
    """Fields are arguments; subclasses say the rest."""

    name: ClassVar[str]
    kind: ClassVar[s.ToolKind] = "other"
    parallel: ClassVar[bool] = False  # may run beside others: it has no effect

    def title(self, place: Workplace) -> str:
        """The title that the user sees."""
        raise NotImplementedError

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """Where an editor may follow along."""
        return ()

    async def run(self, work: Work) -> Sequence[Part]:
        """Run the tool; returns the result for the model.  Raises Failed, Denied or Unreadable."""
        raise NotImplementedError


def spec_of(tool: type[Tool]) -> ToolSpec:
    """A tool as the model is told of it, read off its fields and its docstring."""
    return spec_named(tool.name, tool)


def spec_named(name: str, tool: type[Struct]) -> ToolSpec:
    """The same for any struct, under a name."""
    (_,), parts = msgspec.json.schema_components([tool], ref_template="#/$defs/{name}")
    schema = {key: value for key, value in parts.pop(tool.__name__).items() if key not in ("title", "description")}
    schema.setdefault("required", [])
    if parts:
        schema["$defs"] = parts
    return ToolSpec(name, " ".join((tool.__doc__ or "").split()), schema)


def said(place: Workplace, text: str, call_id: str) -> list[Part]:
    """A text for the model; of one that is too long the middle goes to a file it can read."""
    if len(text) <= MAX_LETTERS:
        return [TextPart(text)]
    path = place.spill(text, call_id)
    tail = MAX_LETTERS - HEAD
    left_out = len(text) - MAX_LETTERS
    return [
        TextPart(f"{text[:HEAD]}\n\n[{left_out} characters left out; all of it is in {path}]\n\n{text[-tail:]}")
    ]
