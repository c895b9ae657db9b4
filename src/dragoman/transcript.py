"""A conversation as a screen shows it: a pure fold of session updates.

Every screen renders a `Transcript`: feed it the events of `Session.prompt`, or any recorded updates, in order.
Entries keep their place and change in place; `apply` gives all entries an event touched, so that a screen repaints
those alone.  What has no place in the flow (mode, options, commands, title, usage) is where the latest word
counts.  Nothing that can be decoded makes `apply` raise.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from . import schema as s

Status = s.ToolCallStatus | Literal["cancelled"]
UNFINISHED = ("pending", "in_progress")


class Message(Struct, dict=True):
    """Something said or thought, block by block."""

    speaker: Literal["user", "agent", "thought"]
    id: str | None = None
    blocks: list[s.ContentBlock] = []  # as they came, chunk by chunk; only appended to, or dropped by `forget`
    is_local: bool = False  # typed here, and not yet echoed by the agent

    @property
    def content(self) -> list[s.ContentBlock]:
        """The blocks with neighbouring texts joined."""
        return joined(self.blocks)

    @property
    def text(self) -> str:
        """Its words; what is no text is left out.  What was joined before is not joined again."""
        text: str
        text, read = self.__dict__.pop("_read", ("", 0))
        text += "".join(block.text for block in self.blocks[read:] if isinstance(block, s.TextContent))
        self.__dict__["_read"] = text, len(self.blocks)
        return text

    def forget(self) -> None:
        """Drop its blocks: they were shown and need not be kept, or others take their place."""
        self.blocks = []
        self.__dict__.pop("_read", None)


class ToolCallEntry(Struct):
    """A tool call with all its updates applied."""

    id: str
    title: str = ""
    name: str | None = None
    kind: s.ToolKind = "other"
    status: Status = "pending"
    content: Sequence[s.ToolCallContent] = []
    locations: Sequence[s.ToolCallLocation] = []
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class PlanEntries(Struct):
    """A plan as it is now; a session may have several, told apart by their ids."""

    id: str | None = None  # None: the plan of `plan` updates, which have no id
    plan: "s.Plan | s.PlanUpdateContent | None" = None  # None once it was removed


class Compaction(Struct):
    """The agent shortening its memory."""

    id: str
    status: s.CompactionStatus = "in_progress"
    summary: list[s.ContentBlock] = []
    error: str | None = None


class Subagent(Struct):
    """Another session the agent runs for this one."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: s.StateUpdate | None = None
    can_cancel: bool = False


class SessionNote(Struct):
    """What one session told another."""

    id: str
    sender: str | None = None
    recipient: str | None = None
    blocks: list[s.ContentBlock] = []


class TurnEnd(Struct):
    """Where a turn ended, and why."""

    stop_reason: str
    usage: s.Usage | None = None
    error: str | None = None  # why there was no response


class Unknown(Struct):
    """An update of a kind this version does not know, as it came."""

    update: s.Raw | s.PlanUpdate


Entry = Message | ToolCallEntry | PlanEntries | Compaction | Subagent | SessionNote | s.Notice | TurnEnd | Unknown


E = TypeVar("E", ToolCallEntry, Compaction, Subagent, SessionNote)


class Transcript:
    """A session folded from its updates: the entries a screen shows, and the session's state."""

    def __init__(self, events: "Iterable[s.SessionUpdate | s.PromptResponse]" = ()) -> None:
        self.entries: list[Entry] = []
        self.mode: str | None = None
        self.config_options: Sequence[s.SessionConfigOption] = ()
        self.commands: Sequence[s.AvailableCommand] = ()
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: s.UsageUpdate | None = None
        self._tools: dict[str, ToolCallEntry] = {}
        self._plans: dict[str | None, PlanEntries] = {}
        self._compactions: dict[str, Compaction] = {}
        self._subagents: dict[str, Subagent] = {}
        self._notes: dict[str, SessionNote] = {}
        for event in events:
            self.apply(event)

    @property
    def tool_calls(self) -> list[ToolCallEntry]:
        """The tool calls in the order in which they were announced."""
        return list(self._tools.values())

    @property
    def plan(self) -> PlanEntries | None:
        """The plan that changed last, unless it was removed."""
        return next((plan for plan in reversed(self._plans.values()) if plan.plan is not None), None)

    @property
    def messages(self) -> list[Message]:
        """The messages of user and agent, thoughts included, in order."""
        return [entry for entry in self.entries if isinstance(entry, Message)]

    def said(self, prompt: Sequence[s.ContentBlock]) -> Message:
        """Add a prompt of the user; an echo of it by the agent replaces this entry."""
        message = Message("user", blocks=list(prompt), is_local=True)
        self.entries.append(message)
        return message

    def apply(self, event: "s.SessionUpdate | s.PromptResponse") -> Sequence[Entry]:
        """Apply one event; gives all entries that changed, those that are new among them."""
        match event:
            case s.AgentMessageChunk():
                return (self._chunk("agent", event),)
            case s.AgentThoughtChunk():
                return (self._chunk("thought", event),)
            case s.UserMessageChunk():
                return (self._chunk("user", event),)
            case s.ToolCall() | s.ToolCallUpdate():
                return (self._tool(event),)
            case s.Plan():
                return (self._plan(None, event),)
            case s.PlanUpdate(plan=s.PlanItems() | s.PlanFile() | s.PlanMarkdown() as plan):
                return (self._plan(plan.plan_id, plan),)
            case s.PlanRemoved(plan_id=plan_id):
                return (self._plan(plan_id, None),) if plan_id in self._plans else ()
            case s.CompactionUpdate():
                return (self._compaction(event),)
            case s.CompactionSummaryChunk(compaction_id=id, content=block):
                compaction = self._entry(self._compactions, id, Compaction)
                compaction.summary.append(block)
                return (compaction,)
            case s.SubagentUpdate():
                return (self._subagent(event),)
            case s.SessionMessage():
                return (self._session_message(event),)
            case s.SessionMessageChunk(message_id=id, content=block):
                note = self._entry(self._notes, id, SessionNote)
                note.blocks.append(block)
                return (note,)
            case s.PromptResponse(stop_reason=reason, usage=usage):
                return self._end(TurnEnd(reason, usage), are_tools_over=reason == "cancelled")
            case s.Notice():
                return self._add(event)
            case s.Raw() | s.PlanUpdate(plan=s.Raw()):
                return self._add(Unknown(event))
        self._set(event)
        return ()

    def fail(self, error: str) -> Sequence[Entry]:
        """End a turn that has no response; its tools will say no more.  Gives all entries that changed."""
        return self._end(TurnEnd("error", error=error), are_tools_over=True)

    def _set(self, event: "s.SessionUpdate | s.PromptResponse") -> None:
        """What has no place in the flow: the latest word counts."""
        match event:
            case s.CurrentModeUpdate(current_mode_id=mode):
                self.mode = mode
            case s.ConfigOptionUpdate(config_options=options):
                self.config_options = options
            case s.AvailableCommandsUpdate(available_commands=commands):
                self.commands = commands
            case s.UsageUpdate():
                self.usage = event
            case s.SessionInfoUpdate(title=title, updated_at=updated_at):
                self.title = _patched(self.title, title)
                self.updated_at = _patched(self.updated_at, updated_at)

    def _chunk(self, speaker: Literal["user", "agent", "thought"], chunk: s.ContentChunk) -> Message:
        last = self.entries[-1] if self.entries else None
        if not (isinstance(last, Message) and last.speaker == speaker and _continues(last, chunk)):
            last = Message(speaker, chunk.message_id)
            self.entries.append(last)
        elif last.is_local:
            last.forget()
            last.id, last.is_local = chunk.message_id, False
        last.id = last.id or chunk.message_id
        last.blocks.append(chunk.content)
        return last

    def _tool(self, update: s.ToolCall | s.ToolCallUpdate) -> ToolCallEntry:
        entry = self._entry(self._tools, update.tool_call_id, ToolCallEntry)
        for name in ("title", "name", "kind", "status", "content", "locations"):
            if (value := getattr(update, name)) is not None:
                setattr(entry, name, value)
        for name in ("raw_input", "raw_output"):
            if (value := getattr(update, name)) is not UNSET:
                setattr(entry, name, value)
        return entry

    def _plan(self, id: str | None, plan: "s.Plan | s.PlanUpdateContent | None") -> PlanEntries:
        entry = self._plans.pop(id, None)
        if entry is None:
            entry = PlanEntries(id)
            self.entries.append(entry)
        self._plans[id] = entry  # the last one touched is the last one in the dict
        entry.plan = plan
        return entry

    def _compaction(self, update: s.CompactionUpdate) -> Compaction:
        entry = self._entry(self._compactions, update.compaction_id, Compaction)
        entry.status = update.status
        entry.summary = list(_patched(entry.summary, update.summary) or ())
        entry.error = _patched(entry.error, update.error)
        return entry

    def _subagent(self, update: s.SubagentUpdate) -> Subagent:
        entry = self._entry(self._subagents, update.session_id, Subagent)
        entry.title = _patched(entry.title, update.title)
        entry.description = _patched(entry.description, update.description)
        entry.state = _patched(entry.state, update.state)
        if not isinstance(update.capabilities, UnsetType):
            entry.can_cancel = update.capabilities is not None and update.capabilities.cancel is not None
        return entry

    def _session_message(self, update: s.SessionMessage) -> SessionNote:
        entry = self._entry(self._notes, update.message_id, SessionNote)
        entry.sender = _patched(entry.sender, update.sender_session_id)
        entry.recipient = _patched(entry.recipient, update.recipient_session_id)
        entry.blocks = list(_patched(entry.blocks, update.content) or ())
        return entry

    def _end(self, end: TurnEnd, *, are_tools_over: bool) -> Sequence[Entry]:
        unfinished = [call for call in self._tools.values() if are_tools_over and call.status in UNFINISHED]
        for call in unfinished:
            call.status = "cancelled"
        return (*unfinished, *self._add(end))

    def _add(self, entry: Entry) -> Sequence[Entry]:
        self.entries.append(entry)
        return (entry,)

    def _entry(self, table: dict[str, E], id: str, kind: Callable[[str], E]) -> E:
        """The entry with this id, made on first sight: updates may come before what they update."""
        entry = table.get(id)
        if entry is None:
            entry = table[id] = kind(id)
            self.entries.append(entry)
        return entry


def joined(blocks: Iterable[s.ContentBlock]) -> list[s.ContentBlock]:
    """Blocks with neighbouring texts made one, where nothing but their text tells them apart."""
    result: list[s.ContentBlock] = []
    texts: list[s.TextContent] = []

    def flush() -> None:
        if texts:
            result.append(structs.replace(texts[0], text="".join(block.text for block in texts)))
            texts.clear()

    for block in blocks:
        if not isinstance(block, s.TextContent):
            flush()
            result.append(block)
            continue
        if texts and (block.annotations, block.meta) != (texts[0].annotations, texts[0].meta):
            flush()
        texts.append(block)
    flush()
    return result


def _continues(message: Message, chunk: s.ContentChunk) -> bool:
    """Whether a chunk goes on with a message: a new id begins a new one, no id goes on with any."""
    return message.is_local or chunk.message_id is None or message.id in (None, chunk.message_id)


def _patched(old: Any, new: Any) -> Any:
    """A field after a patch: left out it stays, null clears it."""
    return old if isinstance(new, UnsetType) else new
