"""Unified messages: one form for the messages from and to any kind of agent."""

import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Literal

import msgspec

from ... import codec
from ... import schema as s
from ...errors import Error
from ...schema.base import Bare

MOST_REASSEMBLED = 64 * 1024 * 1024  # characters of one message; a longer text is divided into several

UnifiedMessageType = Literal[
    "session_init",
    "status_change",
    "assistant",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "permission_request",
    "result",
    "user_message",
    "permission_response",
    "interrupt",
    "configuration_change",
    "unknown",
]
UnifiedRole = Literal["user", "assistant", "system", "tool"]


class UnifiedMessageError(Error):
    """A unified message cannot be read, or has no meaning for an agent."""


class UnifiedMessage(Bare, kw_only=True, gc=True):
    """A message: its type is its meaning, its role the speaker; most types have all their data in `metadata`."""

    type: UnifiedMessageType
    role: UnifiedRole
    content: Sequence[s.ContentBlock] = []
    metadata: s.JsonObject = {}
    id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    timestamp: int = msgspec.field(default_factory=lambda: time.time_ns() // 1_000_000)  # milliseconds

    @property
    def text(self) -> str:
        """The text of its content."""
        return "".join(block.text for block in self.content if isinstance(block, s.TextContent))

    def to_json(self) -> bytes:
        """The whole message as one line of JSON."""
        told = {name: getattr(self, name) for name in self.__struct_fields__}
        return codec.encode(told)

    @classmethod
    def from_json(cls, data: bytes | str) -> "UnifiedMessage":
        """Read a message; raises UnifiedMessageError."""
        try:
            read: UnifiedMessage = codec.decode(data.encode() if isinstance(data, str) else data, cls)
            return read
        except codec.Malformed as exc:
            raise UnifiedMessageError(f"this is not a unified message: {exc}") from None


def user_message(prompt: "str | s.ContentBlock | Iterable[s.ContentBlock]") -> UnifiedMessage:
    """A message of the user."""
    blocks: Any = [s.TextContent(text=prompt)] if isinstance(prompt, str) else prompt
    blocks = [blocks] if isinstance(blocks, msgspec.Struct) else list(blocks)
    return UnifiedMessage(type="user_message", role="user", content=blocks)


def permission_response(
    request_id: str, behavior: Literal["allow", "deny"], *, option_id: str | None = None
) -> UnifiedMessage:
    """The user's answer to the `permission_request` with this `requestId`; an option may be named."""
    chosen = {} if option_id is None else {"optionId": option_id}
    metadata = {"requestId": request_id, "behavior": behavior, **chosen}
    return UnifiedMessage(type="permission_response", role="user", metadata=metadata)


def interrupt() -> UnifiedMessage:
    """Cancel the turn for the user."""
    return UnifiedMessage(type="interrupt", role="user")


def configuration_change(*, model: str | None = None, mode: str | None = None) -> UnifiedMessage:
    """Set another model, or another mode."""
    given = {"model": model, "modeId": mode}
    metadata = {name: value for name, value in given.items() if value is not None}
    return UnifiedMessage(type="configuration_change", role="user", metadata=metadata)


async def reassembled(messages: AsyncIterable[UnifiedMessage]) -> AsyncIterator[UnifiedMessage]:
    """The messages with the pieces of each text joined: an `assistant` message replaces its events."""
    gathered = _Gathered()
    async for message in messages:
        if not gathered.takes(message):
            for whole in gathered.end():
                yield whole
        if message.type == "stream_event":
            gathered.add(message)
        else:
            yield message
    for whole in gathered.end():
        yield whole


class _Gathered:
    """The events of one message."""

    def __init__(self) -> None:
        self._events: list[UnifiedMessage] = []
        self._size = 0

    def takes(self, message: UnifiedMessage) -> bool:
        """Whether a message belongs to the gathered ones."""
        if not self._events or message.type != "stream_event" or self._size > MOST_REASSEMBLED:
            return False
        first = self._events[0]
        return _identity(first) == _identity(message)

    def add(self, message: UnifiedMessage) -> None:
        self._events.append(message)
        self._size += len(message.text)

    def end(self) -> Iterable[UnifiedMessage]:
        events, self._events, self._size = self._events, [], 0
        if not events:
            return
        first = events[0]
        blocks: list[s.ContentBlock] = []
        words: list[str] = []
        for block in (block for event in events for block in event.content):
            if isinstance(block, s.TextContent) and block.annotations is None and block.meta is None:
                words.append(block.text)
                continue
            blocks += [s.TextContent(text="".join(words)), block] if words else [block]
            words = []
        blocks += [s.TextContent(text="".join(words))] if words else []
        yield UnifiedMessage(
            type="user_message" if first.role == "user" else "assistant",
            role=first.role,
            content=blocks,
            metadata=first.metadata,
            timestamp=first.timestamp,
        )


def _identity(event: UnifiedMessage) -> tuple[object, ...]:
    """The key that the events of one message have in common."""
    return event.role, event.metadata.get("messageId"), event.metadata.get("thought", False)
