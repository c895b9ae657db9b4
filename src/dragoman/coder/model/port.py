"""The model port: all that the loop knows of a language model.

A model gets a `ModelRequest` and answers with events; the last one is `Finished`.  Each failure is one of the
errors here, which say whether another try, a shorter history or a key would help.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from ...errors import Error
from ..context.history import Message, ModelReply

Stop = Literal["end", "length", "refusal"]
Purpose = Literal["answer", "summary", "title", "sampling"]
SILENCE = 600.0  # seconds that a model may think between two events
EFFORTS = ("default", "off", "low", "medium", "high")


class ToolSpec(Struct, frozen=True):
    """A tool as it is described to the model."""

    name: str
    description: str
    parameters: Mapping[str, object]  # JSON Schema of an object


class ModelRequest(Struct, frozen=True):
    """A request to a model, and its purpose: the user's turn, a summary or a title."""

    instructions: str
    history: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: str = "default"
    purpose: Purpose = "answer"
    may_search_web: bool = False  # with the provider's own search, if it has one


class TokenUsage(Struct, frozen=True):
    """The tokens of one request; `input` includes cached ones."""

    input: int = 0
    output: int = 0
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class TextDelta(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    text: str


class CallStarted(Struct, frozen=True):
    """The model began to write a call; its arguments follow."""

    id: str
    name: str


class CallGrew(Struct, frozen=True):
    """More of the JSON text of a call's arguments."""

    id: str
    arguments: str


class Finished(Struct, frozen=True):
    reply: ModelReply
    stop: Stop = "end"
    tokens: TokenUsage = TokenUsage()
    cost: float | None = None  # in US dollars, if the prices are known


Event = TextDelta | Thought | CallStarted | CallGrew | Finished


class Model(Protocol):
    """A language model.  `takes` says which media it reads: "image", "audio", "document"."""

    name: str
    window: int  # tokens of context
    takes: frozenset[str]

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """Send a request; closing the generator closes the connection."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


async def told(model: Model, request: ModelRequest, silence: float = SILENCE) -> AsyncGenerator[Event, None]:
    """A model's events up to the last one; closing the generator closes the connection.

    Raises Busy if the model disconnected before the end, Silent if no event came for `silence` seconds.
    """
    events = model.stream(request)
    try:
        while True:
            try:
                async with asyncio.timeout(silence):
                    event = await anext(events, None)
            except TimeoutError:
                raise ModelSilent(model.name, silence) from None
            if event is None:
                raise hung_up(model.name)
            yield event
            if isinstance(event, Finished):
                return
    finally:
        await events.aclose()


async def answer_of(model: Model, request: ModelRequest) -> Finished:
    """A model's complete answer; raises the same errors as `told`."""
    async with contextlib.aclosing(told(model, request)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event
    raise hung_up(model.name)


class ModelError(Error):
    """The model could not be asked, or did not answer."""


class ModelSilent(ModelError):
    """The model accepted the request and sends nothing: another try would most likely take as long."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"{name} has said nothing for {seconds:g} s, so I gave up on it. Ask again, or choose another model "
            "with /model"
        )


class Busy(ModelError):
    """Try later: a rate limit, an overloaded server, a lost connection.  `after` is the wait it asks for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


def hung_up(name: str) -> Busy:
    """The error for a model's answer that broke off."""
    return Busy(f"{name} hung up in the middle of its answer")


class ModelRefused(ModelError):
    """The provider refuses the request because of its content: it would refuse the same request again."""


class TooLong(ModelError):
    """The request is longer than the model's context window."""


class KeyRefused(ModelError):
    """There is no key for this provider, or the provider does not accept it."""
