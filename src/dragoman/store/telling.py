"""A stored session as plain text."""

from collections.abc import Iterable, Iterator

from .. import codec
from .. import schema as s
from ..transcript import Compaction, Message, PlanEntries, ToolCallEntry, Transcript, TurnEnd
from .interruption import damage_line, update_of
from .lines import TurnBegan, TurnEnded, event_of
from .records import Damage


def told(parts: "Iterable[list[bytes] | Damage]") -> Iterator[str]:
    """The messages and tool calls of a session, a paragraph each; at most one turn is held in memory."""
    transcript = Transcript()
    for part in parts:
        for line in part if isinstance(part, list) else [damage_line(part)]:
            if isinstance(event_of(line), TurnBegan):
                yield from _paragraphs(transcript)
                transcript = Transcript()
            _tell(transcript, line)
    yield from _paragraphs(transcript)


def _paragraphs(transcript: Transcript) -> Iterator[str]:
    return filter(None, map(_paragraph, transcript.entries))


def _tell(transcript: Transcript, line: bytes) -> None:
    match event_of(line):
        case TurnBegan(prompt=prompt):
            blocks: list[s.ContentBlock] = [codec.decode(block, s.ContentBlock) for block in prompt]
            transcript.said(blocks)
        case TurnEnded(stop_reason=reason, error=error):
            transcript.apply(s.PromptResponse(stop_reason=reason or f"error: {error}"))
        case None:
            if (update := update_of(line)) is not None:
                transcript.apply(update)


def _paragraph(entry: object) -> str:
    match entry:
        case Message(speaker="user", text=text):
            return f"> {text}"
        case Message(speaker="thought", text=text):
            return f"({text})"
        case Message(text=text):
            return text
        case ToolCallEntry(title=title, status=status):
            return f"[{status}] {title}"
        case PlanEntries(plan=s.Plan(entries=entries)):
            return "\n".join(f"- [{entry.status}] {entry.content}" for entry in entries)
        case Compaction(status=status):
            return f"[{status}] compaction"
        case TurnEnd(stop_reason=reason) if reason != "end_turn":
            return f"[{reason}]"
    return ""
