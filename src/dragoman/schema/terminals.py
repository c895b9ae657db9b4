"""Commands the client runs for the agent, from `terminal/create` to `terminal/release`."""

from collections.abc import Sequence

from .base import Exact, Model, Nullable, UInt32, UInt64
from .protocol import SessionId

TerminalId = str


class EnvVariable(Model, kw_only=True):
    """An environment variable."""

    name: str
    value: str


class CreateTerminalRequest(Model, kw_only=True):
    """Starts a command and answers at once; only the last `output_byte_limit` bytes of output are kept."""

    session_id: SessionId
    command: str
    args: Nullable[Sequence[str]] = []
    env: Nullable[Sequence[EnvVariable]] = []
    cwd: Exact[str | None] = None
    output_byte_limit: Exact[UInt64 | None] = None


class CreateTerminalResponse(Model, kw_only=True):
    """The id of the new terminal."""

    terminal_id: TerminalId


class TerminalExitStatus(Model, kw_only=True):
    """How a command ended: by itself with an exit code, or by a signal."""

    exit_code: UInt32 | None = None
    signal: str | None = None


class TerminalOutputRequest(Model, kw_only=True):
    """Asks for the output so far, without waiting."""

    session_id: SessionId
    terminal_id: TerminalId


class TerminalOutputResponse(Model, kw_only=True):
    """`truncated`: the beginning of the output is gone; no `exit_status`: the command still runs."""

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None


class WaitForTerminalExitRequest(Model, kw_only=True):
    """Waits until the command of a terminal ends."""

    session_id: SessionId
    terminal_id: TerminalId


class WaitForTerminalExitResponse(Model, kw_only=True):
    """How the command ended: an exit code, or a signal."""

    exit_code: UInt32 | None = None
    signal: str | None = None


class KillTerminalRequest(Model, kw_only=True):
    """Ends the command; the terminal and its output stay until released."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(Model):
    """An empty response: it is done."""


class ReleaseTerminalRequest(Model, kw_only=True):
    """Ends the command if it still runs and gives the terminal up; its id is void from here on."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(Model):
    """An empty response: it is done."""
