"""The only way into a conversation's history: every part is checked and bounded before it is kept.

A part that one provider refuses would make it refuse every later request.  `shrink_new`, `flatten` and `remove_new`
remove what was refused all the same, the newest first.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import msgspec
from msgspec.structs import replace

from ...foundation.documents import Json
from ..model.media import checked
from .compaction import flattened
from .history import (
    Media,
    Message,
    ModelInput,
    ModelReply,
    Part,
    Results,
    TextPart,
    ToolOutcome,
    ToolUse,
    repaired,
    sound,
    sound_reply,
)

MAX_TEXT = 2_000_000  # characters of one part
MAX_ARGUMENTS = 1_000_000  # characters of one call
MAX_QUOTED = 2000  # characters of arguments that are not JSON
EMPTY = "(This message is empty.)"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNNAMED = re.compile(r"[^A-Za-z0-9_-]")


class KeptHistory(Sequence[Message]):
    """The messages of user and model, in a form that any provider accepts."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = repaired(_admitted(messages))
        self._taken = len(self._messages)  # this many messages were accepted by a provider
        self._is_proven = not self._messages  # in their present form; otherwise they come from a store or a summary

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        return self._messages[at]

    def __len__(self) -> int:
        return len(self._messages)

    def ask(self, parts: Sequence[Part]) -> None:
        """Keep a message for the model."""
        self._messages += _admitted([ModelInput(parts)])

    def answer(self, reply: ModelReply) -> None:
        """Keep the model's answer; an empty one is dropped, since no provider accepts it."""
        self._messages += _admitted([reply])

    def settle(self, results: Sequence[ToolOutcome]) -> None:
        """Keep the results of the calls in the last answer."""
        self._messages += _admitted([Results(results)])
        self.repair()

    def repair(self) -> None:
        """Give every call a result."""
        self._messages = repaired(self._messages)

    def replace(self, messages: Sequence[Message]) -> None:
        """Replace this history by a shorter one."""
        self._messages = list(messages)
        self._taken = len(messages) - bool(messages and isinstance(messages[-1], ModelInput))
        self._is_proven = False

    def prove(self) -> None:
        """Note that a provider has accepted the whole history."""
        self._taken = len(self._messages)
        self._is_proven = True

    # Content that a provider refused

    def shrink_new(self) -> bool:
        """Remove the new media, or if there are none the new results; false when there are neither."""
        new = self._messages[self._taken :]
        lighter = [_without_media(message) for message in new]
        if not _is_smaller(lighter, new):
            lighter = [_without_results(message) for message in new]
        self._messages[self._taken :] = lighter
        return _is_smaller(lighter, new)

    def flatten(self) -> bool:
        """Turn old messages into plain text; false where a provider has accepted them, or there are none."""
        if self._is_proven or not self._taken:
            return False
        told = flattened(self._messages[: self._taken])
        self._messages[: self._taken] = told
        self._taken, self._is_proven = len(told), True
        return True

    def remove_new(self) -> bool:
        """Remove everything new; false if nothing is new."""
        new = self._messages[self._taken :]
        del self._messages[self._taken :]
        if any(isinstance(message, ModelReply | Results) for message in new):
            self.ask([TextPart("(Your work after this was removed, because the provider refused it.)")])
        self._is_proven = False
        return bool(new)


class CallIds:
    """Ids for the calls of one answer: unique in its conversation, even if the model repeats ids."""

    def __init__(self, history: Iterable[Message]) -> None:
        self._taken = {call.id for message in history if isinstance(message, ModelReply) for call in message.calls}
        self._given: dict[str, list[str]] = {}  # our ids by the model's ids, in the order of the calls

    def begin(self, id: str) -> str:
        """An id for a call that the model begins to write."""
        ours = id if _ID.fullmatch(id) and id not in self._taken else self._fresh(id)
        self._taken.add(ours)
        self._given.setdefault(id, []).append(ours)
        return ours

    def current(self, id: str) -> str | None:
        """Our id of the last call that the model began under its id."""
        return self._given[id][-1] if id in self._given else None

    def applied(self, reply: ModelReply) -> ModelReply:
        """An answer whose calls have our ids."""
        waiting = {id: list(ours) for id, ours in self._given.items()}
        ours = [waiting[call.id].pop(0) if waiting.get(call.id) else self.begin(call.id) for call in reply.calls]
        if ours == [call.id for call in reply.calls]:
            return reply
        # The provider's own form has the model's ids.
        return ModelReply(reply.text, [replace(call, id=id) for call, id in zip(reply.calls, ours, strict=True)])

    def _fresh(self, id: str) -> str:
        plain = _UNNAMED.sub("", id)[:40] or "call"
        return next(found for n in range(2, len(self._taken) + 3) if (found := f"{plain}-{n}") not in self._taken)


def _admitted(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        match message:
            case ModelInput(parts=parts):
                kept = _parts(parts)
                yield replace(message, parts=kept or ([] if message.summary else [TextPart(EMPTY)]))
            case ModelReply():
                if (reply := _reply(message)).text or reply.calls:
                    yield reply
            case Results(results=results):
                yield Results([replace(result, parts=_parts(result.parts)) for result in results])


def _parts(parts: Sequence[Part]) -> list[Part]:
    media = iter(checked([part for part in parts if isinstance(part, Media)]))
    sized = (next(media) if isinstance(part, Media) else part for part in parts)
    found = (_text(part) if isinstance(part, TextPart) else part for part in sized)
    return [part for part in found if isinstance(part, Media) or part.text.strip()]


def _text(part: TextPart) -> TextPart:
    text = sound(part.text)
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}\n\n[{len(text) - MAX_TEXT} characters left out]\n\n{text[-half:]}"
    return part if text == part.text else TextPart(text)


def _reply(reply: ModelReply) -> ModelReply:
    reply = sound_reply(reply)
    text = sound(reply.text) if reply.text.strip() else ""
    calls = [ToolUse(call.id, _name(call.name), _arguments(call.arguments)) for call in reply.calls]
    if text == reply.text and calls == list(reply.calls):
        return reply
    return ModelReply(text, calls)  # without the provider's own form, which still has the original


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else _UNNAMED.sub("_", name)[:64] or "unnamed"


def _arguments(arguments: str) -> str:
    """The arguments as JSON text of an object, because some servers parse it again."""
    try:
        if len(arguments) <= MAX_ARGUMENTS and isinstance(found := json.loads(arguments or "{}"), dict):
            whole = _sound_values(found)
            return arguments if whole == found else json.dumps(whole)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"not_json": arguments[:MAX_QUOTED]})


def _sound_values(value: Json) -> Json:
    """A value without NUL, lone surrogates and NaN, which escapes may hold and no provider accepts."""
    match value:
        case str():
            return sound(value)
        case list():
            return [_sound_values(each) for each in value]
        case dict():
            return {sound(name): _sound_values(each) for name, each in value.items()}
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _without_media(message: Message) -> Message:
    match message:
        case ModelInput(parts=parts):
            return replace(message, parts=_words_alone(parts))
        case Results(results=results):
            return Results([replace(result, parts=_words_alone(result.parts)) for result in results])
    return message


def _is_smaller(lighter: Sequence[Message], new: Sequence[Message]) -> bool:
    """Whether anything was removed: the content differs, and not only the type of the sequence."""
    return msgspec.json.encode(lighter) != msgspec.json.encode(new)


def _words_alone(parts: Sequence[Part]) -> Sequence[Part]:
    return [
        TextPart(f"({part.name or 'Something'} of type {part.media_type} was left out: your provider refused it.)")
        if isinstance(part, Media)
        else part
        for part in parts
    ]


def _without_results(message: Message) -> Message:
    if not isinstance(message, Results):
        return message
    left_out = (TextPart("(This result was left out: your provider refused it.)"),)
    return Results([replace(result, parts=left_out) for result in message.results])
