"""Child sessions: who they are and what is said between them.  Unstable."""

from collections.abc import Sequence

from ..base import UNSET, Exact, Model, UnsetType
from ..protocol import MessageId, SessionId
from ..subagents import SubagentSessionCapabilities
from .base import AbsolutePath, Patch
from .content import ContentBlock
from .states import StateUpdate


class SubagentUpdate(Patch, tag_field="sessionUpdate", tag="subagent_update", kw_only=True):
    """Announces a child on its parent's session, or changes what is known of it."""

    session_id: SessionId
    title: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    capabilities: SubagentSessionCapabilities | UnsetType | None = UNSET
    state: StateUpdate | UnsetType | None = UNSET
    cwd: Exact[AbsolutePath | UnsetType | None] = UNSET
    additional_directories: Exact[Sequence[AbsolutePath] | UnsetType | None] = UNSET


class SessionMessage(Patch, tag_field="sessionUpdate", tag="session_message", kw_only=True):
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
