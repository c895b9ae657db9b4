"""A model that follows a script: for tests, demonstrations and documentation."""

import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from ...foundation.documents import Json
from ..context.history import ModelReply, ToolUse, size
from .port import CallGrew, CallStarted, Event, Finished, ModelRequest, Stop, TextDelta, Thought, TokenUsage


class _Call(Struct, frozen=True):
    name: str
    arguments: str


class _Thought(Struct, frozen=True):
    text: str


class _Stop(Struct, frozen=True):
    reason: Stop


class _Pause(Struct, frozen=True):
    until: Callable[[], Awaitable[object]]


Word = str | _Call | _Thought | _Stop | _Pause
Step = Word | Sequence[Word] | Exception | Callable[[ModelRequest], "Step"]


def call(tool: str, /, **arguments: Json) -> Word:
    """Call a tool with these arguments."""
    return _Call(tool, json.dumps(arguments))


def call_with(tool: str, arguments: str) -> Word:
    """Call a tool with JSON text that need not be well-formed."""
    return _Call(tool, arguments)


def think(text: str) -> Word:
    """Think aloud."""
    return _Thought(text)


def stop(reason: Stop) -> Word:
    """End the step with another reason than completion: "length" or "refusal"."""
    return _Stop(reason)


def pause(until: Callable[[], Awaitable[object]]) -> Word:
    """Await something in the middle of a step, such as an event a test sets."""
    return _Pause(until)


class ScriptedModel:
    """Answers each request with the next step of a script; `requests` keeps the requests.

    A step is one item or several: a string is sent, `call(…)` calls a tool, `think(…)` thinks, `stop(…)` ends with
    another reason; an exception is raised; a function gets the request and returns the step.  When the script is
    over, the model says so.  A request for a title is answered with `title` and takes no step.
    """

    def __init__(
        self,
        *steps: Step,
        name: str = "scripted",
        window: int = 100_000,
        takes: Iterable[str] = (),
        title: str = "",
    ) -> None:
        self.name = name
        self.window = window
        self.takes = frozenset(takes)
        self.title = title
        self.requests: list[ModelRequest] = []
        self._steps = iter(steps)
        self._ids = itertools.count(1)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """Yield the next step of the script and keep the request in `requests`."""
        if request.purpose == "title":
            yield Finished(ModelReply(self.title))
            return
        self.requests.append(request)
        step = next(self._steps, "The script is over.")
        while callable(step):
            step = step(request)
        if isinstance(step, Exception):
            raise step
        text = ""
        calls: list[ToolUse] = []
        reason: Stop = "end"
        for word in step if isinstance(step, Sequence) and not isinstance(step, str) else [step]:
            match word:
                case str():
                    text += word
                    yield TextDelta(word)
                case _Thought():
                    yield Thought(word.text)
                case _Call(name=name, arguments=arguments):
                    made = ToolUse(f"call-{next(self._ids)}", name, arguments)
                    calls.append(made)
                    yield CallStarted(made.id, name)
                    yield CallGrew(made.id, arguments)
                case _Stop():
                    reason = word.reason
                case _Pause():
                    await word.until()
        tokens = TokenUsage(input=size(request.history, request.instructions), output=len(text) // 4 + 1)
        yield Finished(ModelReply(text, calls), reason, tokens)

    async def close(self) -> None:
        """Nothing is held."""
