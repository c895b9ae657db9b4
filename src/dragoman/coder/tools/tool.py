"""The interface of tools, and their surroundings."""

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

MAX_LETTERS = 50_000  # characters of a result for the model
HEAD = 20_000  # how many of them from the beginning if the middle is left out


class Failed(Error):
    """The tool failed; the text is for the model, `shown` for a user who has seen the rest."""

    def __init__(self, words: str, shown: str | None = None) -> None:
        super().__init__(words)
        self.shown = words if shown is None else shown


class Work(Struct, frozen=True):
    """All that a tool needs while it runs: the turn, its call as the client sees it, the workplace."""

    turn: Turn
    call: ToolRun
    place: Workplace
    skills: Mapping[str, Skill]
    takes: frozenset[str]  # the media that the model reads
    set_mode: Callable[[str], Awaitable[None]]
    helpers: "Assistants | None" = None  # a helper has none of its own


class Tool(Struct):
    """The base class of tools; the fields of a subclass are the arguments."""

    name: ClassVar[str]
    kind: ClassVar[s.ToolKind] = "other"
    parallel: ClassVar[bool] = False  # may run concurrently, because it has no effect

    def title(self, place: Workplace) -> str:
        """The title that the user sees."""
        raise NotImplementedError

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The places that an editor may show."""
        return ()

    async def run(self, work: Work) -> Sequence[Part]:
        """Run the tool; returns the result for the model.  Raises Failed, Denied or Unreadable."""
        raise NotImplementedError


def spec_of(tool: type[Tool]) -> ToolSpec:
    """The tool's description for the model, made from its fields and its docstring."""
    return spec_named(tool.name, tool)


def spec_named(name: str, tool: type[Struct]) -> ToolSpec:
    """The description of any struct as a tool with a name."""
    (_,), parts = msgspec.json.schema_components([tool], ref_template="#/$defs/{name}")
    schema = {key: value for key, value in parts.pop(tool.__name__).items() if key not in ("title", "description")}
    schema.setdefault("required", [])
    if parts:
        schema["$defs"] = parts
    return ToolSpec(name, " ".join((tool.__doc__ or "").split()), schema)


def said(place: Workplace, text: str, call_id: str) -> list[Part]:
    """A text for the model; the middle of a text that is too long goes to a file that it can read."""
    if len(text) <= MAX_LETTERS:
        return [TextPart(text)]
    path = place.spill(text, call_id)
    tail = MAX_LETTERS - HEAD
    left_out = len(text) - MAX_LETTERS
    return [
        TextPart(f"{text[:HEAD]}\n\n[{left_out} characters left out; all of it is in {path}]\n\n{text[-tail:]}")
    ]
