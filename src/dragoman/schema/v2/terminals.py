"""Terminals of the agent, for the client to show; their bytes come in base64."""

from ..base import UNSET, Int64, Model, UnsetType
from ..protocol import SessionId
from ..terminals import TerminalId
from .base import AbsolutePath, Patch, Positive16


class TerminalExitStatus(Model, kw_only=True):
    """How a command ended: by itself with an exit code, or by a signal."""

    exit_code: Int64 | None = None
    signal: str | None = None


class TerminalSize(Model, kw_only=True):
    """Columns and rows of a terminal."""

    cols: Positive16
    rows: Positive16


class TerminalOutput(Model, kw_only=True):
    """All the output there is."""

    data: str


class TerminalCancelCapabilities(Model):
    """Marks that the client may cancel what runs in the terminal."""


class TerminalCapabilities(Model, kw_only=True):
    """What the client may do to a terminal; nothing unless it says so."""

    cancel: TerminalCancelCapabilities | None = None


class TerminalUpdate(Patch, tag_field="sessionUpdate", tag="terminal_update", kw_only=True):
    """Announces a terminal, or changes what is known of it."""

    terminal_id: TerminalId
    command: str | UnsetType | None = UNSET
    cwd: AbsolutePath | UnsetType | None = UNSET
    output: TerminalOutput | UnsetType | None = UNSET
    exit_status: TerminalExitStatus | UnsetType | None = UNSET
    size: TerminalSize | UnsetType | None = UNSET
    capabilities: TerminalCapabilities | UnsetType | None = UNSET


class TerminalOutputChunk(Model, tag_field="sessionUpdate", tag="terminal_output_chunk", kw_only=True):
    """More output; each chunk is base64 of its own."""

    terminal_id: TerminalId
    data: str


class CancelTerminalRequest(Model, kw_only=True):
    """Stops what runs in a terminal; its exit status comes as an update."""

    session_id: SessionId
    terminal_id: TerminalId


class CancelTerminalResponse(Model):
    """It will be stopped."""
