"""Making a conversation shorter: first old tool output goes, then everything becomes a summary."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from .history import Asked, Message, Part, Reply, Result, Results, Text

THRESHOLD = 0.8  # of the window, from which on a conversation is made shorter
RECENT = 6  # messages whose tool output stays
MOST_LETTERS = 400  # of an older result that stay
LEFT_OUT = "[The rest of this output was left out to save room; call the tool again if you need it.]"
ORDER = """\
The conversation is too long to go on. Write a summary from which you can continue the work without it: what the \
user wants, word for word where it matters; what was done and decided, and why; files read and changed, with the \
places that matter; what was tried and failed; what is still to do, and the very next step. Write only \
the summary."""
HEADING = "Summary of the conversation so far, which is no longer visible:"


def pruned(history: Sequence[Message]) -> list[Message]:
    """The history with old tool output cut short."""
    recent = len(history) - RECENT
    return [
        Results([_cut(result) for result in message.results])
        if isinstance(message, Results) and i < recent
        else message
        for i, message in enumerate(history)
    ]


def _cut(result: Result) -> Result:
    letters = sum(len(part.text) if isinstance(part, Text) else MOST_LETTERS + 1 for part in result.parts)
    if letters <= MOST_LETTERS + len(LEFT_OUT):
        return result
    return replace(result, parts=(Text(f"{_words(result.parts)[:MOST_LETTERS]}\n{LEFT_OUT}"),))


def question(history: Sequence[Message]) -> list[Message]:
    """What the model is asked for a summary: the conversation told in one message, which no provider refuses."""
    told = "\n\n".join(line for message in pruned(history) for line in _told(message))
    return [Asked((Text(f"<conversation>\n{told}\n</conversation>\n\n{ORDER}"),))]


def _told(message: Message) -> Iterator[str]:
    match message:
        case Asked(parts=parts):
            yield f"User: {_words(parts)}"
        case Reply(text=text, calls=calls):
            if text:
                yield f"You: {text}"
            yield from (f"You called {call.name} with {call.arguments}" for call in calls)
        case Results(results=results):
            yield from (f"{result.name} ({result.outcome}): {_words(result.parts)}" for result in results)


def _words(parts: Sequence[Part]) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"({part.media_type})" for part in parts)


def halved(history: Sequence[Message]) -> list[Message]:
    """The later half of a history, from where the user spoke; for one too long even to be summarised."""
    asked = [i for i, message in enumerate(history) if isinstance(message, Asked)]
    later = [i for i in asked if i >= len(history) // 2]
    return list(history[later[0] :]) if later else [history[i] for i in asked[-1:]]


def summarised(history: Sequence[Message], summary: str) -> list[Message]:
    """The history that takes the place of another: its summary, and the user's last words as they were."""
    last = next((message for message in reversed(history) if isinstance(message, Asked)), None)
    parts: list[Part] = [Text(f"{HEADING}\n\n{summary}")]
    if last is not None and not last.text.startswith(HEADING):
        parts += [Text("The user's last message:"), *last.parts]
    return [Asked(parts)]
