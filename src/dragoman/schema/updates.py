"""What the agent reports while it works: `session/update` and all its variants."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from .base import UNSET, Lenient, Model, Raw, UInt64, UnsetType
from .config_options import SessionConfigOption
from .content import ContentBlock
from .plans import Plan, PlanRemoved, PlanUpdate
from .protocol import MessageId, SessionId
from .sessions import SessionModeId
from .subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from .tools import ToolCall, ToolCallUpdated

CompactionId = str
CompactionStatus = Literal["in_progress", "completed", "failed", "cancelled"] | str
NoticeSeverity = Literal["info", "warning", "error"] | str


class ContentChunk(Model, kw_only=True):
    """One more block of a message; another `message_id` begins another message."""

    content: ContentBlock
    message_id: MessageId | None = None


# One shape under three tags, hence a class for each.
class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A piece of the user's message, repeated when a session is loaded."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A piece of the agent's message."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A piece of the agent's thoughts."""


class UnstructuredCommandInput(Model, kw_only=True):
    """All that follows the command's name is its input; `hint` shows while there is none."""

    hint: str


AvailableCommandInput = UnstructuredCommandInput  # the only kind there is


class AvailableCommand(Model, kw_only=True):
    """A slash command, sent as the text `/name input` of a prompt."""

    name: str
    description: str
    input: AvailableCommandInput | None = None


class AvailableCommandsUpdate(Model, tag_field="sessionUpdate", tag="available_commands_update", kw_only=True):
    """All slash commands of the session as they are now."""

    available_commands: Lenient[Sequence[AvailableCommand]]


class CurrentModeUpdate(Model, tag_field="sessionUpdate", tag="current_mode_update", kw_only=True):
    """The agent switched the session's mode."""

    current_mode_id: SessionModeId


class ConfigOptionUpdate(Model, tag_field="sessionUpdate", tag="config_option_update", kw_only=True):
    """All options as they are now."""

    config_options: Lenient[Sequence[SessionConfigOption]]


class SessionInfoUpdate(Model, tag_field="sessionUpdate", tag="session_info_update", kw_only=True):
    """What changed in a session's description: left out stays as it was, null clears."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class Cost(Model, kw_only=True):
    """An amount of a currency, or of the agent's own unit such as credits."""

    amount: float
    currency: str


class UsageUpdate(Model, tag_field="sessionUpdate", tag="usage_update", kw_only=True):
    """How many tokens of the context window are `used`, and what the session has cost so far."""

    used: UInt64
    size: UInt64
    cost: Cost | None = None


class Notice(Model, tag_field="sessionUpdate", tag="notice", kw_only=True):
    """A notice for the user, shown once and never replayed."""

    severity: NoticeSeverity
    title: Annotated[str, Meta(min_length=1)]
    description: str | None = None


class CompactionUpdate(Model, tag_field="sessionUpdate", tag="compaction_update", kw_only=True):
    """The agent shortens its context.  Summary and error: left out stays as it was, null clears."""

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Sequence[ContentBlock] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class CompactionSummaryChunk(Model, tag_field="sessionUpdate", tag="compaction_summary_chunk", kw_only=True):
    """One more block of the summary."""

    compaction_id: CompactionId
    content: ContentBlock


SessionUpdate = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdated
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
    | Raw
)


class SessionNotification(Model, kw_only=True):
    """One update of a session."""

    session_id: SessionId
    update: SessionUpdate
