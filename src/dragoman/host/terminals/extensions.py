"""Extension methods for terminals, which the protocol does not have: their params and results.

    _dragoman/terminal/create         CreateRequest -> CreateResponse   a time limit, a size, pushed output; the pid
    _dragoman/terminal/wait_for_exit  WaitRequest   -> WaitResponse     with a time limit, and the output
    _dragoman/terminal/kill           KillRequest   -> KillResponse     with a signal, or at once
    _dragoman/terminal/input          InputRequest  -> Nothing          type into an interactive terminal
    _dragoman/terminal/resize         ResizeRequest -> Nothing
    _dragoman/terminal/output         PushedOutput                      to the agent: new output

These methods and the protocol's own work on the same terminals.  Times are in milliseconds.
"""

from ...schema.base import Bare, Exact, Model, UInt32, UInt64
from ...schema.protocol import SessionId
from ...schema.terminals import (
    CreateTerminalRequest,
    KillTerminalRequest,
    TerminalId,
    WaitForTerminalExitRequest,
)
from .output import StreamName


class TerminalSize(Bare, kw_only=True):
    columns: int
    rows: int


class CreateRequest(CreateTerminalRequest, kw_only=True):
    """`timeout` ends the command; `size` makes it interactive; `push` sends its output as it is printed."""

    timeout: Exact[UInt64 | None] = None
    size: Exact[TerminalSize | None] = None
    push: Exact[bool] = False


class CreateResponse(Model, kw_only=True):
    """`pid` is the command's, or that of the sandbox it runs in."""

    terminal_id: TerminalId
    pid: int


class WaitRequest(WaitForTerminalExitRequest, kw_only=True):
    timeout: Exact[UInt64 | None] = None


class WaitResponse(Model, kw_only=True):
    """`timed_out`: the command still runs, or was ended by its time limit."""

    output: str
    truncated: bool
    timed_out: bool
    exit_code: UInt32 | None = None
    signal: str | None = None


class KillRequest(KillTerminalRequest, kw_only=True):
    """With `signal`, only that signal is sent; without one, the command is ended, with `force` at once."""

    signal: Exact[str | None] = None
    force: Exact[bool] = False


class KillResponse(Model, kw_only=True):
    killed: bool  # false if it had ended before


class InputRequest(Model, kw_only=True):
    session_id: SessionId
    terminal_id: TerminalId
    text: str


class ResizeRequest(Model, kw_only=True):
    session_id: SessionId
    terminal_id: TerminalId
    columns: int
    rows: int


class Nothing(Model):
    """An empty result."""


class PushedOutput(Model, kw_only=True):
    session_id: SessionId
    terminal_id: TerminalId
    stream: StreamName
    text: str
