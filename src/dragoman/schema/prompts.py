"""A turn: the prompt that starts it, the reason it stops, the notice that cancels it."""

from collections.abc import Sequence
from typing import Literal

from .base import Model, UInt64
from .content import ContentBlock
from .protocol import SessionId

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptRequest(Model, kw_only=True):
    """Starts a turn; the answer comes when it is over."""

    session_id: SessionId
    prompt: Sequence[ContentBlock]


class Usage(Model, kw_only=True):
    """Tokens spent in the session so far.  Unstable."""

    total_tokens: UInt64
    input_tokens: UInt64
    output_tokens: UInt64
    thought_tokens: UInt64 | None = None
    cached_read_tokens: UInt64 | None = None
    cached_write_tokens: UInt64 | None = None


class PromptResponse(Model, kw_only=True):
    """Why the turn stopped, and what it used."""

    stop_reason: StopReason | str  # any string: a new reason must not cost the user the turn
    usage: Usage | None = None


class CancelNotification(Model, kw_only=True):
    """Ends the running turn, which then answers `cancelled`."""

    session_id: SessionId
