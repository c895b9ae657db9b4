"""Asking the user before a tool runs."""

from collections.abc import Sequence
from typing import Literal

from .base import Bare, Model
from .protocol import SessionId
from .tools import ToolCallUpdate

PermissionOptionId = str
PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(Model, kw_only=True):
    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


# In the `_meta` of a question: the agent's work gets done after a no as well, by other means or with less.
OPTIONAL = {"dragoman": {"optional": True}}


class RequestPermissionRequest(Model, kw_only=True):
    session_id: SessionId
    tool_call: ToolCallUpdate
    options: Sequence[PermissionOption]


class CancelledPermissionOutcome(Bare, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user chose."""


class SelectedPermissionOutcome(Model, tag_field="outcome", tag="selected", kw_only=True):
    option_id: PermissionOptionId


# No Raw here: an outcome we do not know must never pass for an answer.
RequestPermissionOutcome = CancelledPermissionOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Model, kw_only=True):
    outcome: RequestPermissionOutcome
