"""What the agent does: tool calls, their progress and what they show."""

from collections.abc import Sequence
from typing import Any, Literal

from ..base import UNSET, Model, Raw, Sifted, UnsetType
from ..protocol import SessionId
from ..tools import Terminal, ToolCallId
from .base import AbsolutePath, MediaType, Patch, Positive32
from .content import ContentBlock

ToolKind = (
    Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"] | str
)
ToolCallStatus = Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"] | str
DiffFileType = Literal["text", "binary", "directory", "symlink"] | str
DiffPatchFormat = Literal["git_patch"] | str


class ToolCallLocation(Model, kw_only=True):
    """A place the tool works on, so that an editor can follow along; lines count from 1."""

    path: AbsolutePath
    line: Positive32 | None = None


class Content(Model, tag_field="type", tag="content", kw_only=True):
    """An ordinary content block in a tool call."""

    content: ContentBlock


class DiffPatch(Model, kw_only=True):
    """The changes as text to show."""

    format: DiffPatchFormat
    text: str


class _DiffChange(Model, kw_only=True):
    """What happened to one file."""

    path: AbsolutePath
    file_type: DiffFileType | None = None
    mime_type: MediaType | None = None


class DiffAdd(_DiffChange, tag_field="operation", tag="add"):
    """The file is new."""


class DiffDelete(_DiffChange, tag_field="operation", tag="delete"):
    """The file is gone."""


class DiffModify(_DiffChange, tag_field="operation", tag="modify"):
    """The file holds something else."""


class DiffMove(_DiffChange, tag_field="operation", tag="move", kw_only=True):
    """The file has another path."""

    old_path: AbsolutePath


class DiffCopy(_DiffChange, tag_field="operation", tag="copy", kw_only=True):
    """The file is there twice."""

    old_path: AbsolutePath


DiffChange = DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy | Raw


class Diff(Model, tag_field="type", tag="diff", kw_only=True):
    """The files that changed, and perhaps how, as text."""

    changes: Sifted[Sequence[DiffChange]]
    patch: DiffPatch | None = None


ToolCallContent = Content | Diff | Terminal | Raw


class ToolCallCancelCapabilities(Model):
    """Marks that the client may cancel the tool call."""


class ToolCallCapabilities(Model, kw_only=True):
    """What the client may do to a tool call; nothing unless it says so."""

    cancel: ToolCallCancelCapabilities | None = None


class ToolCallUpdate(Patch, kw_only=True):
    """Announces a tool call, or changes what is known of it; a list replaces the whole list."""

    tool_call_id: ToolCallId
    name: str | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET
    kind: ToolKind | UnsetType | None = UNSET
    status: ToolCallStatus | UnsetType | None = UNSET
    content: Sequence[ToolCallContent] | UnsetType | None = UNSET
    locations: Sequence[ToolCallLocation] | UnsetType | None = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    capabilities: ToolCallCapabilities | UnsetType | None = UNSET


# A permission request carries the same fields without a tag, hence two classes.
class ToolCallUpdated(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """A ToolCallUpdate sent as a session update."""


class ToolCallContentChunk(Model, tag_field="sessionUpdate", tag="tool_call_content_chunk", kw_only=True):
    """One more item of what a tool call shows."""

    tool_call_id: ToolCallId
    content: ToolCallContent


class CancelToolCallRequest(Model, kw_only=True):
    """Stops a tool call; its final status comes as an update."""

    session_id: SessionId
    tool_call_id: ToolCallId


class CancelToolCallResponse(Model):
    """It will be stopped."""
