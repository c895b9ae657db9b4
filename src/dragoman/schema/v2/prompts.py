"""The prompt, answered as soon as it has its place in the conversation, and the notice that cancels the work."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ..base import Model
from ..protocol import MessageId, SessionId
from .content import ContentBlock


class PromptRequest(Model, kw_only=True):
    """A word to the agent; what it does about it shows in `state_update`."""

    session_id: SessionId
    prompt: Annotated[Sequence[ContentBlock], Meta(min_length=1)]


class PromptResponse(Model, kw_only=True):
    """The prompt is part of the conversation now, under this id."""

    message_id: MessageId


class CancelSessionNotification(Model, kw_only=True):
    """Ends the work in the foreground and takes back prompts not yet in the conversation."""

    session_id: SessionId
