"""What the agent reports while it works: `session/update` and all its variants."""

from collections.abc import Sequence

from ..base import UNSET, Model, Raw, Sifted, UInt64, UnsetType
from ..plans import PlanRemoved
from ..protocol import MessageId, SessionId
from ..updates import CompactionId, CompactionStatus, Cost, Notice
from .base import Patch
from .commands import AvailableCommandsUpdate
from .config_options import SessionConfigOption
from .content import ContentBlock
from .plans import PlanUpdate
from .states import StateUpdated
from .subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from .terminals import TerminalOutputChunk, TerminalUpdate
from .tools import ToolCallContentChunk, ToolCallUpdated


class ContentChunk(Model, kw_only=True):
    """One more block of the message of that id."""

    message_id: MessageId
    content: ContentBlock


# One shape under three tags, hence a class for each.
class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A piece of the user's message, as the agent echoes it."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A piece of the agent's message."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A piece of the agent's thoughts."""


class _Message(Patch, kw_only=True):
    """A whole message, new or in place of the one of that id; later chunks add to it."""

    message_id: MessageId
    content: Sequence[ContentBlock] | UnsetType | None = UNSET


class UserMessage(_Message, tag_field="sessionUpdate", tag="user_message"):
    """A whole message of the user."""


class AgentMessage(_Message, tag_field="sessionUpdate", tag="agent_message"):
    """A whole message of the agent."""


class AgentThought(_Message, tag_field="sessionUpdate", tag="agent_thought"):
    """A whole thought of the agent."""


class ConfigOptionUpdate(Model, tag_field="sessionUpdate", tag="config_option_update", kw_only=True):
    """All options as they are now."""

    config_options: Sifted[Sequence[SessionConfigOption]]


class SessionInfoUpdate(Patch, tag_field="sessionUpdate", tag="session_info_update", kw_only=True):
    """What changed in a session's description."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class UsageUpdate(Model, tag_field="sessionUpdate", tag="usage_update", kw_only=True):
    """How many tokens of the context window are `used`; a cost left out stays as it was, null clears it."""

    used: UInt64
    size: UInt64
    cost: Cost | UnsetType | None = UNSET


class CompactionUpdate(Patch, tag_field="sessionUpdate", tag="compaction_update", kw_only=True):
    """The agent shortens its context."""

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
    | UserMessage
    | AgentMessageChunk
    | AgentMessage
    | AgentThoughtChunk
    | AgentThought
    | StateUpdated
    | ToolCallContentChunk
    | ToolCallUpdated
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
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


class UpdateSessionNotification(Model, kw_only=True):
    """One update of a session."""

    session_id: SessionId
    update: SessionUpdate
