"""Asking the user before something is done: what is asked, about what, and the answer."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from ..base import Exact, Model, Raw
from ..permissions import PermissionOptionId, SelectedPermissionOutcome
from ..protocol import SessionId
from ..terminals import TerminalId
from ..tools import ToolCallId
from .base import AbsolutePath
from .tools import ToolCallUpdate

PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str


class PermissionOption(Model, kw_only=True):
    """One choice of the user: allow or reject, once or always."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class ToolCallPermissionSubject(Model, tag_field="type", tag="tool_call", kw_only=True):
    """The question is about a tool call."""

    tool_call: ToolCallUpdate


class CommandPermissionSubject(Model, tag_field="type", tag="command", kw_only=True):
    """The question is about a command."""

    command: str
    cwd: AbsolutePath
    tool_call_id: ToolCallId | None = None
    terminal_id: TerminalId | None = None


RequestPermissionSubject = ToolCallPermissionSubject | CommandPermissionSubject | Raw


class RequestPermissionRequest(Model, kw_only=True):
    """Asks the user about a tool call, a command or something else; the options are the possible answers."""

    session_id: SessionId
    title: str
    options: Annotated[Sequence[PermissionOption], Meta(min_length=1)]
    description: str | None = None
    subject: Exact[RequestPermissionSubject | None] = None


class CancelledPermissionOutcome(Model, tag_field="outcome", tag="cancelled"):
    """Nothing was chosen: the user looked away, the work was cancelled, or a rule said no."""


# An outcome nobody knows is kept, and is never a yes.
RequestPermissionOutcome = CancelledPermissionOutcome | SelectedPermissionOutcome | Raw


class RequestPermissionResponse(Model, kw_only=True):
    """What the user chose, or that the question was cancelled."""

    outcome: RequestPermissionOutcome
