"""What a session is doing in the foreground, and what goes on behind it."""

from collections.abc import Sequence
from typing import Literal

from ..base import Model, Raw, Whole
from ..prompts import StopReason, Usage
from ..protocol import SessionId
from ..terminals import TerminalId
from ..tools import ToolCallId
from .protocol import Error


class BackgroundTerminal(Model, tag_field="type", tag="terminal", kw_only=True):
    """A terminal that runs in the background."""

    terminal_id: TerminalId


class BackgroundToolCall(Model, tag_field="type", tag="tool_call", kw_only=True):
    """A tool call that runs in the background."""

    tool_call_id: ToolCallId


class BackgroundSubagent(Model, tag_field="type", tag="subagent", kw_only=True):
    """A child session at work.  Unstable."""

    session_id: SessionId


BackgroundWork = BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | Raw


class _Foreground(Model, kw_only=True):
    """`background` is all that runs apart from it; None is not told, an empty list is nothing."""

    background: Whole[Sequence[BackgroundWork] | None] = None


# One struct: the schema tells these by the value of stopReason, null and unknown values included.
class _Idle(_Foreground, kw_only=True):
    """Why the work stopped, and what went wrong if that was an error."""

    stop_reason: StopReason | Literal["error"] | str | None = None
    error: Error | None = None
    usage: Usage | None = None


class RunningStateUpdate(_Foreground, tag_field="state", tag="running"):
    """Works on something."""


class IdleStateUpdate(_Idle, tag_field="state", tag="idle"):
    """Waits for a prompt."""


class RequiresActionStateUpdate(_Foreground, tag_field="state", tag="requires_action"):
    """Waits for the user."""


class UnknownStateUpdate(_Foreground, tag_field="state", tag="unknown"):
    """The agent itself cannot tell.  Unstable."""


StateUpdate = RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate | Raw


# As a session update it has two tags, and a struct can have one: the second is a field here.
class StateUpdated(_Idle, tag_field="sessionUpdate", tag="state_update", kw_only=True):
    """A StateUpdate sent as a session update; the fields of idle are there for idle alone."""

    state: Literal["running", "idle", "requires_action", "unknown"] | str
