"""A session's life: new, load, resume, fork, list, archive, close, delete; its title and its modes."""

from collections.abc import Sequence
from typing import Literal

from .base import Exact, Lenient, Model, Nullable
from .config_options import SessionConfigOption
from .content import ContentBlock
from .mcp import McpServer
from .protocol import SessionId

SessionModeId = str
SystemPromptMode = Literal["append", "override"] | str
SessionArchiveFilter = Literal["exclude", "include", "only"] | str
SessionStatus = Literal["open", "saved"] | str


class SystemPrompt(Model, kw_only=True):
    """Text for the agent's system prompt, added to it or put in its place.  Unstable."""

    mode: SystemPromptMode
    content: Sequence[ContentBlock]


class SessionMode(Model, kw_only=True):
    id: SessionModeId
    name: str
    description: str | None = None


class SessionModeState(Model, kw_only=True):
    current_mode_id: SessionModeId
    available_modes: Lenient[Sequence[SessionMode]]


class NewSessionRequest(Model, kw_only=True):
    """`cwd` and the additional directories, all absolute, are the roots the agent works in."""

    cwd: str
    mcp_servers: Nullable[Sequence[McpServer]]
    additional_directories: Nullable[Sequence[str]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class NewSessionResponse(Model, kw_only=True):
    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class LoadSessionRequest(Model, kw_only=True):
    """Opens a past session; the agent repeats the whole conversation as updates before it answers."""

    session_id: SessionId
    cwd: str
    mcp_servers: Nullable[Sequence[McpServer]]
    additional_directories: Nullable[Sequence[str]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class LoadSessionResponse(Model, kw_only=True):
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class ResumeSessionRequest(Model, kw_only=True):
    """Opens a past session without repeating what was said."""

    session_id: SessionId
    cwd: str
    mcp_servers: Nullable[Sequence[McpServer]] = []
    additional_directories: Nullable[Sequence[str]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class ResumeSessionResponse(Model, kw_only=True):
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class ForkSessionRequest(Model, kw_only=True):
    """Opens a new session that remembers what this one does.  Unstable."""

    session_id: SessionId
    cwd: str
    mcp_servers: Nullable[Sequence[McpServer]] = []
    additional_directories: Nullable[Sequence[str]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class ForkSessionResponse(Model, kw_only=True):
    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class ListSessionsRequest(Model, kw_only=True):
    """One page of the sessions there are; `cursor` is the `next_cursor` of the page before."""

    cwd: Exact[str | None] = None
    cursor: Exact[str | None] = None
    archived: Exact[SessionArchiveFilter | None] = None


class SessionInfo(Model, kw_only=True):
    session_id: SessionId
    cwd: str
    additional_directories: Sequence[str] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class ListSessionsResponse(Model, kw_only=True):
    sessions: Lenient[Sequence[SessionInfo]]
    next_cursor: str | None = None


class DeleteSessionRequest(Model, kw_only=True):
    session_id: SessionId


class DeleteSessionResponse(Model):
    """Nothing to say."""


class CloseSessionRequest(Model, kw_only=True):
    """Cancels what runs and frees what the session holds; it can be opened again."""

    session_id: SessionId


class CloseSessionResponse(Model):
    """Nothing to say."""


class ArchiveSessionRequest(Model, kw_only=True):
    """Hides a session from the default list and keeps its history.  Unstable."""

    session_id: SessionId


class ArchiveSessionResponse(Model):
    """Nothing to say."""


class UnarchiveSessionRequest(Model, kw_only=True):
    session_id: SessionId


class UnarchiveSessionResponse(Model):
    """Nothing to say."""


class SessionStatusRequest(Model, kw_only=True):
    """Asks whether a session is open, and changes nothing.  Unstable."""

    session_id: SessionId


class SessionStatusResponse(Model, kw_only=True):
    status: SessionStatus


class SetSessionTitleRequest(Model, kw_only=True):
    session_id: SessionId
    title: str


class SetSessionTitleResponse(Model, kw_only=True):
    """The title as the agent stored it."""

    title: str


class SetSessionModeRequest(Model, kw_only=True):
    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Model):
    """Nothing to say."""
