"""Making a conversation shorter: first old tool output goes, then everything becomes a summary."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from .history import Message, ModelInput, ModelReply, Part, Results, TextPart, ToolOutcome

THRESHOLD = 0.8  # share of the window from which on a conversation is shortened
RECENT = 6  # the latest messages, whose tool output stays
MOST_LETTERS = 400  # characters of an older result that stay
LEFT_OUT = "[The rest of this output was left out to save room; call the tool again if you need it.]"
ORDER = """\
The conversation is too long to go on. Write a summary from which you can continue the work without it: what the \
user wants, word for word where it matters; what was done and decided, and why; files read and changed, with the \
places that matter; what was tried and failed; what is still to do, and the very next step. Write only \
the summary."""
HEADING = "Summary of the conversation so far, which is no longer visible:"
SAID = "What the user said in it, word for word, the latest at the end:"
LETTERS_EACH = 4  # of a token
FOR_THE_USER = 0.25  # share of the window that the user's own messages may take
SHORTEST = 200  # characters to which the user's messages are cut
MOST_TOLD = 100_000  # characters of a history that is sent as plain text


def pruned(history: Sequence[Message]) -> list[Message]:
    """The history with old tool output cut short."""
    recent = len(history) - RECENT
    return [
        Results([_cut(result) for result in message.results])
        if isinstance(message, Results) and i < recent
        else message
        for i, message in enumerate(history)
    ]


def _cut(result: ToolOutcome) -> ToolOutcome:
    letters = sum(len(part.text) if isinstance(part, TextPart) else MOST_LETTERS + 1 for part in result.parts)
    if letters <= MOST_LETTERS + len(LEFT_OUT):
        return result
    return replace(result, parts=(TextPart(f"{_words(result.parts)[:MOST_LETTERS]}\n{LEFT_OUT}"),))


def question(history: Sequence[Message]) -> list[Message]:
    """The request for a summary: the conversation in one message, a form that no provider refuses."""
    told = "\n\n".join(line for message in pruned(history) for line in _told(message))
    return [ModelInput((TextPart(f"<conversation>\n{told}\n</conversation>\n\n{ORDER}"),))]


def _told(message: Message) -> Iterator[str]:
    match message:
        case ModelInput():
            yield f"User: {_words(message.told)}"
        case ModelReply(text=text, calls=calls):
            if text:
                yield f"You: {text}"
            yield from (f"You called {call.name} with {call.arguments}" for call in calls)
        case Results(results=results):
            yield from (f"{result.name} ({result.outcome}): {_words(result.parts)}" for result in results)


def _words(parts: Sequence[Part]) -> str:
    return "\n".join(part.text if isinstance(part, TextPart) else f"({part.media_type})" for part in parts)


def halved(history: Sequence[Message], window: int) -> list[Message]:
    """The later half of a history and the user's messages of the rest, if it is too long even to summarise."""
    middle = len(history) // 2
    later = next((i for i, message in enumerate(history) if i >= middle and isinstance(message, ModelInput)), None)
    return [*_said(history[:later], window), *(() if later is None else history[later:])]


def summarised(history: Sequence[Message], summary: str, window: int) -> list[Message]:
    """The shorter history: a summary, and the user's messages word for word."""
    said = _said(history, window)
    heading = f"{HEADING}\n\n{summary}"
    if not said:
        return [ModelInput((), heading)]
    return [replace(said[0], summary=f"{heading}\n\n{SAID}"), *said[1:]]


def flattened(history: Sequence[Message]) -> list[Message]:
    """The history as plain text in one message, for a provider that refuses its parts."""
    told = "\n\n".join(line for message in pruned(history) for line in _told(message))
    return summarised([], told[-MOST_TOLD:], 0)


def _said(history: Sequence[Message], window: int) -> list[ModelInput]:
    """The user's messages, word for word; the middle of long ones, except the last, may be left out."""
    asked = [message for message in history if isinstance(message, ModelInput) and message.parts]
    earlier = [ModelInput([_as_words(part) for part in message.parts]) for message in asked[:-1]]
    room = int(window * LETTERS_EACH * FOR_THE_USER)
    lengths = sorted(len(message.text) for message in earlier)
    if sum(lengths) > room:
        longest = _share(lengths, room)
        earlier = [ModelInput([_cut_short(part, longest) for part in message.parts]) for message in earlier]
    return [*earlier, *(ModelInput(message.parts) for message in asked[-1:])]


def _share(lengths: Sequence[int], room: int) -> int:
    """The longest length a text may have so that all fit; shorter texts stay whole."""
    for i, length in enumerate(lengths):
        each = room // (len(lengths) - i)
        if length > each:
            return max(each, SHORTEST)
        room -= length
    return max(room, SHORTEST)


def _as_words(part: Part) -> Part:
    return (
        part if isinstance(part, TextPart) else TextPart(f"({part.name or 'something'} of type {part.media_type})")
    )


def _cut_short(part: Part, longest: int) -> Part:
    if not isinstance(part, TextPart) or len(part.text) <= longest:
        return part
    half = longest // 2
    return TextPart(f"{part.text[:half]}\n[{len(part.text) - 2 * half} characters left out]\n{part.text[-half:]}")
