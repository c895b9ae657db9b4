"""`initialize`: who the two sides are and what each can do.

A capability is a marker object: `{}` is yes, nothing or null is no.
"""

from collections.abc import Sequence

from ..base import Model
from ..handshake import (
    AuthStatusCapabilities,
    ElicitationCapabilities,
    Implementation,
    ProtocolVersion,
    ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionTitleCapabilities,
)
from .auth import AuthMethod

# ── what a client can do ──────────────────────────────────────────────────────────────────────────


class TerminalAuthCapabilities(Model):
    """Marks that the client can run a login in a terminal."""


class ClientAuthCapabilities(Model, kw_only=True):
    """How the client can help with logins."""

    terminal: TerminalAuthCapabilities | None = None


class ClientCapabilities(Model, kw_only=True):
    """Everything a client offers; what is missing must not be asked of it."""

    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(Model, kw_only=True):
    """The newest version the client speaks, and who it is."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: ClientCapabilities = ClientCapabilities()


# ── what an agent can do ──────────────────────────────────────────────────────────────────────────


class PromptImageCapabilities(Model):
    """Marks that a prompt may hold pictures."""


class PromptAudioCapabilities(Model):
    """Marks that a prompt may hold sound."""


class PromptEmbeddedContextCapabilities(Model):
    """Marks that a prompt may bring the contents of resources along."""


class PromptCapabilities(Model, kw_only=True):
    """What a prompt may hold besides text and links."""

    image: PromptImageCapabilities | None = None
    audio: PromptAudioCapabilities | None = None
    embedded_context: PromptEmbeddedContextCapabilities | None = None


class McpStdioCapabilities(Model):
    """Marks MCP servers started as a process."""


class McpHttpCapabilities(Model):
    """Marks MCP servers reached over HTTP."""


class McpAcpCapabilities(Model):
    """Marks MCP servers the client itself provides.  Unstable."""


class McpCapabilities(Model, kw_only=True):
    """The kinds of MCP server the agent takes."""

    stdio: McpStdioCapabilities | None = None
    http: McpHttpCapabilities | None = None
    acp: McpAcpCapabilities | None = None


class SessionCapabilities(Model, kw_only=True):
    """Its presence promises new, list, resume, close, prompt, cancel and updates; its fields what goes beyond."""

    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    fork: SessionForkCapabilities | None = None
    archive: SessionArchiveCapabilities | None = None
    status: SessionStatusCapabilities | None = None
    title: SessionTitleCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None


class AgentAuthCapabilities(Model, kw_only=True):
    """What the agent offers for logins besides `auth/login` and `auth/logout`."""

    status: AuthStatusCapabilities | None = None


class AgentCapabilities(Model, kw_only=True):
    """Everything an agent offers; what is missing must not be asked of it."""

    session: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None
    providers: ProvidersCapabilities | None = None


class InitializeResponse(Model, kw_only=True):
    """The version both will speak, and what the agent offers."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: Sequence[AuthMethod] = []
