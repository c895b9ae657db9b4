"""The calls a model makes: shown from their first character on, run in order, each with a result."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..agent.turn import Turn
from ..errors import ConnectionClosed, Error, RpcError
from ..foundation.owning import side_by_side
from ..host.display import visible
from .announcing import MAX_TITLE, Announced
from .context.history import Outcome, Part, TextPart, ToolOutcome, ToolUse, sound
from .conversation import Conversation
from .model.retrying import REPEATS
from .permissions import Cancelled, Denied
from .toolbox import Toolbox, arguments_of
from .tools import Tool, Work
from .tools.tool import Failed

if TYPE_CHECKING:
    from .exploring import Assistants

log = logging.getLogger("dragoman")


class CallRunner:
    """The calls of one answer after another; `end` leaves none of them open on screen."""

    def __init__(
        self,
        turn: Turn,
        conversation: Conversation,
        toolbox: Toolbox,
        takes: frozenset[str],
        *,
        repeats: int = REPEATS,
        helpers: "Assistants | None" = None,
    ) -> None:
        self._turn = turn
        self._conversation = conversation
        self._toolbox = toolbox
        self._takes = takes
        self._most = repeats
        self._helpers = helpers
        self._announced: dict[str, Announced] = {}  # calls of the current answer, by the model's ids
        self.results: dict[str, ToolOutcome] = {}  # the results of its calls, as they arrive
        self._last = ("", "")  # the last call
        self.repeats = 0  # how often in a row it was made

    async def begin(self, id: str, name: str) -> Announced:
        """The model begins to write a call."""
        made = await Announced.made(self._turn, sound(name), self._toolbox.kind_of(name))
        self._announced[id] = made
        return made

    async def grow(self, id: str, more: str) -> None:
        """The model wrote more of a call's arguments."""
        await self._announced[id].grow(more, self._conversation.place)

    async def end(self, why: str, kept: Sequence[ToolUse] = ()) -> None:
        """Close the open calls on screen, except those that will be run."""
        made = {call.id for call in kept}
        for id in [id for id in self._announced if id not in made]:
            await self._announced.pop(id).end(why)

    async def run(self, calls: Sequence[ToolUse]) -> list[ToolOutcome]:
        """Run calls in order; calls without effects run concurrently."""
        self.results = {}
        for batch in self._batches(calls):
            await side_by_side([partial(self._result, call, tool) for call, tool in batch], len(batch))
        results = [self.results[call.id] for call in calls]
        self._announced.clear()
        return results

    def _batches(self, calls: Sequence[ToolUse]) -> list[list[tuple[ToolUse, Tool | str]]]:
        batches: list[list[tuple[ToolUse, Tool | str]]] = []
        beside = False
        for call in calls:
            tool = self._tool(call)
            parallel = isinstance(tool, Tool) and tool.parallel
            if parallel and beside:
                batches[-1].append((call, tool))
            else:
                batches.append([(call, tool)])
            beside = parallel
        return batches

    def _tool(self, call: ToolUse) -> Tool | str:
        """The tool to run, or the reason why there is none."""
        same = (call.name, call.arguments)
        self.repeats = self.repeats + 1 if same == self._last else 1
        self._last = same
        if self.repeats > self._most:
            return f"You have made this very call {self.repeats} times. It was not made again; do something else."
        try:
            return self._toolbox.tool(call)
        except Error as exc:
            return str(exc)

    async def _result(self, call: ToolUse, tool: Tool | str) -> None:
        # An answer need not have been streamed.
        announced = self._announced.get(call.id) or await self.begin(call.id, call.name)
        if isinstance(tool, str):
            await announced.end(tool, raw_input=_input(call))
            self.results[call.id] = ToolOutcome(call.id, call.name, (TextPart(tool),), "failed")
        else:
            self.results[call.id] = await self._run(call, tool, announced)

    async def _run(self, call: ToolUse, tool: Tool, announced: Announced) -> ToolOutcome:
        conversation, run = self._conversation, announced.run
        await run.update(
            title=visible(tool.title(conversation.place), limit=MAX_TITLE),
            kind=tool.kind,
            locations=list(tool.locations(conversation.place)),
            raw_input=_input(call),
        )
        work = Work(
            self._turn,
            run,
            conversation.place,
            conversation.skills,
            self._takes,
            conversation.set_mode,
            self._helpers,
        )
        outcome: Outcome = "success"
        parts: Sequence[Part]
        shown: str | None = None
        try:
            if tool.parallel:
                await run.start()
            parts = await tool.run(work)
            await announced.show(tool, parts)
        except Denied as exc:
            outcome, parts = "denied", [TextPart(str(exc))]
        except (Cancelled, ConnectionClosed):
            raise
        except Failed as exc:
            outcome, parts, shown = "failed", [TextPart(str(exc))], exc.shown
        except RpcError as exc:
            outcome, parts = "failed", [TextPart(exc.message)]
        except Error as exc:
            outcome, parts = "failed", [TextPart(str(exc))]
        except Exception as exc:
            log.exception("the tool %s failed", call.name)
            outcome, parts = "failed", [TextPart(f"The tool broke ({type(exc).__name__}); this is not your fault.")]
        await announced.end(None if outcome == "success" else shown or _words(parts))
        return ToolOutcome(call.id, call.name, parts, outcome)


def _input(call: ToolUse) -> object:
    try:
        return arguments_of(call)
    except Failed:
        return call.arguments


def _words(parts: Sequence[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))
