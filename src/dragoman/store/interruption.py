"""The lines added to a session for an interrupted turn and for missing lines."""

from collections.abc import Iterable

from .. import codec
from .. import schema as s
from ..transcript import UNFINISHED, Compaction, ToolCallEntry, Transcript
from .lines import OWN, WHOLE, TurnEnded, now, own
from .records import Damage

INTERRUPTED = "interrupted"  # the reason such a turn stopped
WORDS = "Interrupted: this turn was cut short before it was over."


def closing_lines(turn: str, lines: Iterable[bytes]) -> list[bytes]:
    """The lines that end an interrupted turn of which these lines are left: its open tool calls fail."""
    transcript = Transcript()
    for line in lines:
        if (update := update_of(line)) is not None:
            transcript.apply(update)
    closing = [codec.encode(update) for entry in transcript.entries if (update := _ended(entry)) is not None]
    message = s.AgentMessageChunk(content=s.TextContent(text=WORDS), message_id=f"{turn}-interrupted")
    return [*closing, codec.encode(message), own(TurnEnded(turn=turn, stop_reason=INTERRUPTED, at=now()))]


def update_of(line: bytes) -> s.SessionUpdate | None:
    """The update a line holds; None when it holds something else."""
    if line.startswith(OWN):
        return None
    try:
        if line.startswith(WHOLE):
            whole: s.SessionNotification = codec.decode(b'{"sessionId":"",' + line[2:], s.SessionNotification)
            return whole.update
        return codec.decode(line, s.SessionUpdate)  # type: ignore[no-any-return]
    except codec.Malformed:
        return None if line.startswith(WHOLE) else update_of(b'~{"update":%s}' % line)


def _ended(entry: object) -> s.SessionUpdate | None:
    match entry:
        case ToolCallEntry(id=id, status=status, content=content) if status in UNFINISHED:
            why = s.Content(content=s.TextContent(text="Interrupted; it was not run again."))
            return s.ToolCallUpdated(tool_call_id=id, status="failed", content=[*content, why])
        case Compaction(id=id, status="in_progress"):
            return s.CompactionUpdate(compaction_id=id, status="cancelled")
    return None


def damage_line(damage: Damage) -> bytes:
    """The update in place of missing lines: a text, which every client shows."""
    count = damage.last - damage.first + 1
    text = f"[Damaged: {count} stored update{'s' * (count > 1)} of this session cannot be read: {damage}.]"
    meta = {"dragoman": {"damaged": {"first": damage.first, "last": damage.last}}}
    content = s.TextContent(text=text)
    return codec.encode(s.AgentMessageChunk(content=content, message_id=f"damaged-{damage.first}", meta=meta))
