"""What the agent does: tool calls, their progress and what they show."""

from collections.abc import Sequence
from typing import Any, Literal

from .base import UNSET, Model, Raw, UInt32
from .content import ContentBlock
from .terminals import TerminalId

ToolCallId = str
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]


class ToolCallLocation(Model, kw_only=True):
    """A place the tool works on, so that an editor can follow along; lines count from 1."""

    path: str
    line: UInt32 | None = None


class Content(Model, tag_field="type", tag="content", kw_only=True):
    """An ordinary content block in a tool call."""

    content: ContentBlock


class Diff(Model, tag_field="type", tag="diff", kw_only=True):
    """A file before and after; no `old_text` means the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class Terminal(Model, tag_field="type", tag="terminal", kw_only=True):
    """Shows a terminal live; what it printed stays visible after its release."""

    terminal_id: TerminalId


ToolCallContent = Content | Diff | Terminal | Raw


class ToolCall(Model, tag_field="sessionUpdate", tag="tool_call", kw_only=True):
    """Announces a tool call.  `raw_input` and `raw_output` may hold any JSON, null too, hence UNSET."""

    tool_call_id: ToolCallId
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: Sequence[ToolCallContent] = []
    locations: Sequence[ToolCallLocation] = []
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallUpdate(Model, kw_only=True):
    """What changed in a tool call: None leaves a field as it was, a list replaces the whole list."""

    tool_call_id: ToolCallId
    title: str | None = None
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    raw_input: Any = UNSET
    raw_output: Any = UNSET


# A permission request carries the same fields without a tag, hence two classes.
class ToolCallUpdated(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """A ToolCallUpdate sent as a session update."""
