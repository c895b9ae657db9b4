"""Child sessions: who they are, what they do, what is said between them.  Unstable."""

from collections.abc import Sequence
from typing import Literal

from .base import UNSET, Exact, Model, Raw, UnsetType
from .content import ContentBlock
from .prompts import StopReason, Usage
from .protocol import Error, MessageId, SessionId


class RunningStateUpdate(Model, tag_field="state", tag="running"):
    """Works on something."""


class IdleStateUpdate(Model, tag_field="state", tag="idle", kw_only=True):
    """Waits for a prompt; says why it stopped, and what went wrong if that was an error."""

    # One struct: the schema tells these by the value of stopReason, null and unknown values included.
    stop_reason: StopReason | Literal["error"] | str | None = None
    error: Error | None = None
    usage: Usage | None = None


class RequiresActionStateUpdate(Model, tag_field="state", tag="requires_action"):
    """Waits for the user."""


class UnknownStateUpdate(Model, tag_field="state", tag="unknown"):
    """The agent itself cannot tell."""


StateUpdate = RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate | Raw


class SessionCancelCapabilities(Model):
    """Marks that the client may cancel the child's work."""


class SubagentSessionCapabilities(Model, kw_only=True):
    """What the client may do to a child session; nothing unless it says so."""

    cancel: SessionCancelCapabilities | None = None


# In both updates below a field left out stays as it was, and null clears it.
class SubagentUpdate(Model, tag_field="sessionUpdate", tag="subagent_update", kw_only=True):
    """Announces a child on its parent's session, or changes what is known of it."""

    session_id: SessionId
    title: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    capabilities: SubagentSessionCapabilities | UnsetType | None = UNSET
    state: StateUpdate | UnsetType | None = UNSET
    cwd: Exact[str | UnsetType | None] = UNSET
    additional_directories: Exact[Sequence[str] | UnsetType | None] = UNSET


class SessionMessage(Model, tag_field="sessionUpdate", tag="session_message", kw_only=True):
    """A message between sessions, as the transcript of one of them shows it."""

    message_id: MessageId
    sender_session_id: SessionId | UnsetType | None = UNSET
    recipient_session_id: SessionId | UnsetType | None = UNSET
    sender_message_id: MessageId | UnsetType | None = UNSET
    recipient_message_id: MessageId | UnsetType | None = UNSET
    content: Sequence[ContentBlock] | UnsetType | None = UNSET


class SessionMessageChunk(Model, tag_field="sessionUpdate", tag="session_message_chunk", kw_only=True):
    """One more block of such a message."""

    message_id: MessageId
    content: ContentBlock
