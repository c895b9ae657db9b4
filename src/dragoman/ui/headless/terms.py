"""The terms of a run: what the user wants done, how it ended, and what it is shown on."""

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
    """What the user wants done."""

    agent: Launch
    prompt: str
    cwd: str
    preset: Preset = "ask"
    mode: str | None = None
    session_options: Sequence[tuple[str, str]] = ()  # by id, with the value to set
    files: Sequence[Path] = ()
    session: str | None = None
    latest: bool = False
    timeout: float | None = None
    sandbox: Literal["commands", "agent"] | None = None  # what runs in one
    visible: Sequence[str] = ()  # what an agent in a sandbox can read, too
    network: Sequence[str] = ()  # the hosts that it can connect to
    mcp_servers: Sequence[s.McpServer] = ()  # that the session is given
    login: str | None = None  # the agent's way to log in
    dialect: str | None = None  # what the agent speaks, where that cannot be told
    json: bool = False
    interactive: bool = False  # whether somebody sits at stderr's terminal


class RunOutcome(Struct):
    """How a run ended."""

    exit_code: int
    stop_reason: str | None = None  # None: the turn never ended
    usage: s.Usage | None = None
    denied: int = 0
    error: str | None = None


class WrongArgument(Error):
    """The command line asks for something this agent does not have."""


def outcome_of(response: s.PromptResponse, denied: int, *, stopped: bool = False) -> RunOutcome:
    """How a run ended whose turn did; some agents cancel a turn by themselves in which something was denied."""
    code = STOPS.get(response.stop_reason, DONE)
    if response.stop_reason == "cancelled" and denied and not stopped:
        code = DONE
    return RunOutcome(DENIED if code == DONE and denied else code, response.stop_reason, response.usage, denied)


class View(Protocol):
    """What a run is shown on, a `Screen` or `Events`: it is told what happens, in order."""

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
