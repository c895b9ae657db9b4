"""A session's life: new, resume, fork, list; what happens to one by its id alone is as in v1."""

from collections.abc import Sequence

from ..base import Exact, Lenient, Model, Nullable, Raw
from ..protocol import SessionId
from ..sessions import SessionStatus, SystemPromptMode
from .base import AbsolutePath
from .commands import AvailableCommand
from .config_options import SessionConfigOption
from .content import ContentBlock
from .mcp import McpServer
from .states import StateUpdate

SessionListCursor = str


class SystemPrompt(Model, kw_only=True):
    """Text for the agent's system prompt, added to it or put in its place.  Unstable."""

    mode: SystemPromptMode
    content: Sequence[ContentBlock]


class _Opened(Model, kw_only=True):
    """What the client learns of a session it opened."""

    config_options: Sequence[SessionConfigOption] = []
    available_commands: Sequence[AvailableCommand] = []


class NewSessionRequest(Model, kw_only=True):
    """`cwd` and the additional directories are the roots the agent works in."""

    cwd: AbsolutePath
    mcp_servers: Nullable[Sequence[McpServer]] = []
    additional_directories: Nullable[Sequence[AbsolutePath]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class NewSessionResponse(_Opened, kw_only=True):
    """The new session's id, options and commands."""

    session_id: SessionId


class ReplayFromStart(Model, tag_field="type", tag="start"):
    """From the first thing the agent still knows."""


ReplayFrom = ReplayFromStart | Raw


class ResumeSessionRequest(Model, kw_only=True):
    """Opens a past session; with `replay_from` the agent repeats what was said from there on, then answers."""

    session_id: SessionId
    cwd: AbsolutePath
    mcp_servers: Nullable[Sequence[McpServer]] = []
    additional_directories: Nullable[Sequence[AbsolutePath]] = []
    replay_from: Exact[ReplayFrom | None] = None
    system_prompt: Exact[SystemPrompt | None] = None


class ResumeSessionResponse(_Opened):
    """The session is open."""


class ForkSessionRequest(Model, kw_only=True):
    """Opens a new session that remembers what this one does.  Unstable."""

    session_id: SessionId
    cwd: AbsolutePath
    mcp_servers: Nullable[Sequence[McpServer]] = []
    additional_directories: Nullable[Sequence[AbsolutePath]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class ForkSessionResponse(_Opened, kw_only=True):
    """The new session's id, options and commands.  Unstable."""

    session_id: SessionId


class SessionInfo(Model, kw_only=True):
    """A stored session as `session/list` shows it."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Nullable[Sequence[AbsolutePath]] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class ListSessionsResponse(Model, kw_only=True):
    """One page of stored sessions; no `next_cursor` means it is the last."""

    sessions: Lenient[Sequence[SessionInfo]]
    next_cursor: Exact[SessionListCursor | None] = None


class SessionStatusResponse(Model, kw_only=True):
    """Whether a session is open, and what it does if the agent can tell.  Unstable."""

    status: SessionStatus
    state: StateUpdate | None = None
