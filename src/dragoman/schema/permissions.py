"""Asking the user before a tool runs."""

from collections.abc import Sequence
from typing import Literal

from .base import Bare, Model
from .protocol import SessionId
from .tools import ToolCallUpdate

PermissionOptionId = str
PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(Model, kw_only=True):
    """One choice of the user: allow or reject, once or always."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Model, kw_only=True):
    """Asks the user about a tool call; the options are the possible answers."""

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: Sequence[PermissionOption]


class CancelledPermissionOutcome(Bare, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user chose."""


class SelectedPermissionOutcome(Model, tag_field="outcome", tag="selected", kw_only=True):
    """The user chose the option of this id."""

    option_id: PermissionOptionId


# No Raw here: an outcome we do not know must never pass for an answer.
RequestPermissionOutcome = CancelledPermissionOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Model, kw_only=True):
    """What the user chose, or that the question was cancelled."""

    outcome: RequestPermissionOutcome
