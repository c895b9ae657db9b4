"""The types of a run: the user's options, the outcome, and the interface of views."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from ... import schema as s
from ...client.client import Client
from ...errors import Error
from ...host.permissions import Preset, Question
from ...host.processes import Launch

DONE, REFUSED, LIMIT, DENIED, FAILED, USAGE, INTERRUPTED = 0, 2, 3, 4, 5, 64, 130
STOPS = {"refusal": REFUSED, "max_tokens": LIMIT, "max_turn_requests": LIMIT, "cancelled": INTERRUPTED}


class RunOptions(Struct, kw_only=True):
    """The user's options for a run."""

    agent: Launch
    prompt: str
    cwd: str
    preset: Preset = "ask"
    mode: str | None = None
    session_options: Sequence[tuple[str, str]] = ()  # values by the option's id
    files: Sequence[Path] = ()
    session: str | None = None
    latest: bool = False
    timeout: float | None = None
    sandbox: Literal["commands", "agent"] | None = None  # what runs in a sandbox
    visible: Sequence[str] = ()  # further paths that an agent in a sandbox can read
    network: Sequence[str] = ()  # the hosts that an agent in a sandbox can connect to
    mcp_servers: Sequence[s.McpServer] = ()  # MCP servers of the session
    login: str | None = None  # the agent's method to log in
    dialect: str | None = None  # the agent's dialect, if it cannot be detected
    json: bool = False
    interactive: bool = False  # whether a user sits at stderr's terminal


class RunOutcome(Struct):
    """The end of a run."""

    exit_code: int
    stop_reason: str | None = None  # None: the turn never ended
    usage: s.Usage | None = None
    denied: int = 0
    error: str | None = None


class WrongArgument(Error):
    """The command line asks for something that the agent does not have."""


def outcome_of(response: s.PromptResponse, denied: int, *, stopped: bool = False) -> RunOutcome:
    """The outcome of a run after its turn; some agents cancel a turn themselves after a denial."""
    code = STOPS.get(response.stop_reason, DONE)
    if response.stop_reason == "cancelled" and denied and not stopped:
        code = DONE
    return RunOutcome(DENIED if code == DONE and denied else code, response.stop_reason, response.usage, denied)


class View(Protocol):
    """Shows a run, as a `Screen` or as `Events`: it gets everything that happens, in order."""

    def starting(self, agent: str, seconds: int) -> None: ...
    def began(self, agent: str, client: Client, session_id: str, cwd: str) -> None: ...
    def working(self, seconds: int) -> None: ...
    def recall(self, update: s.SessionUpdate) -> None: ...
    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None: ...
    def asked_about(self, request: s.RequestPermissionRequest) -> None: ...
    def asked(self, question: Question) -> None: ...
    def decided(self, event: Mapping[str, object]) -> None: ...
    def terminal(self, id: str, command: str) -> None: ...
    def output(self, id: str, text: str, stream: str) -> None: ...
    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None: ...
    def remark(self, words: str) -> None: ...
    def ended(self, outcome: RunOutcome) -> None: ...
