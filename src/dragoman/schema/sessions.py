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
    """A way for the agent to work, such as asking or coding."""

    id: SessionModeId
    name: str
    description: str | None = None


class SessionModeState(Model, kw_only=True):
    """The modes of a session and the one in force."""

    current_mode_id: SessionModeId
    available_modes: Lenient[Sequence[SessionMode]]


class NewSessionRequest(Model, kw_only=True):
    """`cwd` and the additional directories, all absolute, are the roots the agent works in."""

    cwd: str
    mcp_servers: Nullable[Sequence[McpServer]]
    additional_directories: Nullable[Sequence[str]] = []
    system_prompt: Exact[SystemPrompt | None] = None


class NewSessionResponse(Model, kw_only=True):
    """The new session's id, modes and options."""

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
    """The loaded session's modes and options."""

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
    """The resumed session's modes and options."""

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
    """The new session's id, modes and options.  Unstable."""

    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: Sequence[SessionConfigOption] | None = None


class ListSessionsRequest(Model, kw_only=True):
    """One page of the sessions there are; `cursor` is the `next_cursor` of the page before."""

    cwd: Exact[str | None] = None
    cursor: Exact[str | None] = None
    archived: Exact[SessionArchiveFilter | None] = None


class SessionInfo(Model, kw_only=True):
    """A stored session as `session/list` shows it."""

    session_id: SessionId
    cwd: str
    additional_directories: Sequence[str] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class ListSessionsResponse(Model, kw_only=True):
    """One page of stored sessions; no `next_cursor` means it is the last."""

    sessions: Lenient[Sequence[SessionInfo]]
    next_cursor: str | None = None


class DeleteSessionRequest(Model, kw_only=True):
    """Deletes a stored session."""

    session_id: SessionId


class DeleteSessionResponse(Model):
    """An empty response: it is done."""


class CloseSessionRequest(Model, kw_only=True):
    """Cancels what runs and frees what the session holds; it can be opened again."""

    session_id: SessionId


class CloseSessionResponse(Model):
    """An empty response: it is done."""


class ArchiveSessionRequest(Model, kw_only=True):
    """Hides a session from the default list and keeps its history.  Unstable."""

    session_id: SessionId


class ArchiveSessionResponse(Model):
    """An empty response: it is done."""


class UnarchiveSessionRequest(Model, kw_only=True):
    """Puts an archived session back into the default list.  Unstable."""

    session_id: SessionId


class UnarchiveSessionResponse(Model):
    """An empty response: it is done."""


class SessionStatusRequest(Model, kw_only=True):
    """Asks whether a session is open, and changes nothing.  Unstable."""

    session_id: SessionId


class SessionStatusResponse(Model, kw_only=True):
    """Whether a session is open or only stored.  Unstable."""

    status: SessionStatus


class SetSessionTitleRequest(Model, kw_only=True):
    """Gives a session a title.  Unstable."""

    session_id: SessionId
    title: str


class SetSessionTitleResponse(Model, kw_only=True):
    """The title as the agent stored it."""

    title: str


class SetSessionModeRequest(Model, kw_only=True):
    """Switches a session to another mode."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Model):
    """An empty response: it is done."""
