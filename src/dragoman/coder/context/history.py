"""The messages of user and model, as plain data: stored as JSON, sent to any provider.

A history is valid when every call of a reply has a result in the message right after it; `repaired` makes it so.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

Outcome = Literal["success", "failed", "denied", "cancelled"]
CANCELLED = "Cancelled by the user before it was done."


class TextPart(Struct, frozen=True, tag="text"):
    text: str


class Media(Struct, frozen=True, tag="media"):
    """A picture, a sound or a document, base64 in `data`."""

    media_type: str
    data: str
    name: str = ""


Part = TextPart | Media


class ModelInput(Struct, frozen=True, tag="user"):
    """A message to the model, from the user or from the agent itself.

    `summary` sums up the earlier conversation, which is no longer in the history.
    """

    parts: Sequence[Part]
    summary: str = ""

    @property
    def told(self) -> Sequence[Part]:
        """The whole message as the model gets it."""
        return [TextPart(self.summary), *self.parts] if self.summary else self.parts

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.told if isinstance(part, TextPart))


class ToolUse(Struct, frozen=True):
    """A tool call that the model wants; `arguments` is the JSON text it wrote, well-formed or not."""

    id: str
    name: str
    arguments: str


class ModelReply(Struct, frozen=True, tag="model"):
    """The model's answer.  `original` is the provider's own form, which is sent back to the same provider."""

    text: str = ""
    calls: Sequence[ToolUse] = ()
    original: Any = None


class ToolOutcome(Struct, frozen=True):
    """The result of a call."""

    id: str
    name: str
    parts: Sequence[Part]
    outcome: Outcome = "success"


class Results(Struct, frozen=True, tag="results"):
    """The results of all calls of the reply before."""

    results: Sequence[ToolOutcome]


Message = ModelInput | ModelReply | Results


def repaired(history: Iterable[Message]) -> list[Message]:
    """The history with a result for every call: a missing result becomes `cancelled`."""
    found: list[Message] = []
    for message in history:
        owed = _owed(found)
        if isinstance(message, Results):
            if owed:
                found.append(_complete(owed, message.results))
            continue  # every provider refuses results without a call
        if owed:
            found.append(_complete(owed, ()))
        found.append(message)
    if owed := _owed(found):
        found.append(_complete(owed, ()))
    return found


def _owed(history: Sequence[Message]) -> Sequence[ToolUse]:
    return history[-1].calls if history and isinstance(history[-1], ModelReply) else ()


def _complete(calls: Sequence[ToolUse], results: Sequence[ToolOutcome]) -> Results:
    known = {result.id: result for result in results}
    lost = ToolOutcome("", "", (TextPart(CANCELLED),), "cancelled")
    return Results([replace(known.get(call.id, lost), id=call.id, name=call.name) for call in calls])


def sound(text: str) -> str:
    """A text that can be sent: without NUL and lone surrogates, which only JSON can hold."""
    whole = text if text.isascii() else text.encode(errors="replace").decode()
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


def sound_reply(reply: ModelReply) -> ModelReply:
    """A reply that can be sent and stored, even if the model wrote invalid text."""
    try:
        msgspec.json.encode(reply)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        calls = [ToolUse(sound(call.id), sound(call.name), sound(call.arguments)) for call in reply.calls]
        return ModelReply(sound(reply.text), calls)
    return reply


def size(history: Sequence[Message], instructions: str = "") -> int:
    """The approximate tokens of a history, where the provider has not counted: one for four characters."""
    return (len(instructions) + sum(map(_letters, history))) // 4


def _letters(message: Message) -> int:
    match message:
        case ModelInput():
            return sum(map(_part_letters, message.told))
        case ModelReply(text=text, calls=calls):
            return len(text) + sum(len(call.arguments) + len(call.name) for call in calls)
        case Results(results=results):
            return sum(_part_letters(part) for result in results for part in result.parts)


def _part_letters(part: Part) -> int:
    return (
        len(part.text) if isinstance(part, TextPart) else 6000
    )  # tokens that providers roughly count for a picture
