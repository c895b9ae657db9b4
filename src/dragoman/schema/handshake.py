"""`initialize`: who the two sides are and what each can do.

A capability is a truth value or a marker object: `{}` is yes, nothing or null is no.
"""

from collections.abc import Sequence

from .auth import AuthMethod
from .base import Bare, Model, UInt16
from .documents import PositionEncodingKind
from .nes import ClientNesCapabilities, NesCapabilities

ProtocolVersion = UInt16


class Implementation(Model, kw_only=True):
    """A program: `name` for machines, `title` for people."""

    name: str
    version: str
    title: str | None = None


# ── what a client can do ──────────────────────────────────────────────────────────────────────────


class FileSystemCapabilities(Model, kw_only=True):
    """Which of the `fs/*` methods the client answers."""

    read_text_file: bool = False
    write_text_file: bool = False


class BooleanConfigOptionCapabilities(Model):
    """Marks that the client can show switches."""


class SessionConfigOptionsCapabilities(Model, kw_only=True):
    """The kinds of config option the client can show besides choices."""

    boolean: BooleanConfigOptionCapabilities | None = None


class CompactionCapabilities(Bare):
    """Marks that the client takes `compaction_update` and its chunks."""


class NoticeCapabilities(Bare):
    """Marks that the client can show a `notice`."""


class ClientSessionCapabilities(Model, kw_only=True):
    """What the client can show of a session: switches, notices, compaction."""

    config_options: SessionConfigOptionsCapabilities | None = None
    notices: NoticeCapabilities | None = None
    compaction: CompactionCapabilities | None = None


class AuthCapabilities(Model, kw_only=True):
    """`terminal`: the client can run a login in a terminal."""

    terminal: bool = False


class ElicitationFormCapabilities(Model):
    """Marks that the client can show forms."""


class ElicitationUrlCapabilities(Model):
    """Marks that the client can send the user to a web page."""


class ElicitationCapabilities(Model, kw_only=True):
    """The ways the client can ask its user; an empty object means none."""

    form: ElicitationFormCapabilities | None = None
    url: ElicitationUrlCapabilities | None = None


class PlanCapabilities(Model):
    """Marks that the client takes `plan_update` and `plan_removed`.  Unstable."""


class SubagentCapabilities(Model):
    """Marks that the client takes `subagent_update` and what follows from it.  Unstable."""


class ClientCapabilities(Model, kw_only=True):
    """Everything a client lends; what is missing must not be asked of it."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: AuthCapabilities = AuthCapabilities()
    elicitation: ElicitationCapabilities | None = None
    plan: PlanCapabilities | None = None
    subagents: SubagentCapabilities | None = None
    # Frozen with next edit suggestions:
    nes: ClientNesCapabilities | None = None
    position_encodings: Sequence[PositionEncodingKind] = []


class InitializeRequest(Model, kw_only=True):
    """The newest version the client speaks, and what it lends the agent."""

    protocol_version: ProtocolVersion
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


# ── what an agent can do ──────────────────────────────────────────────────────────────────────────


class PromptCapabilities(Model, kw_only=True):
    """What a prompt may hold besides text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Model, kw_only=True):
    """The kinds of MCP server the agent takes besides stdio."""

    http: bool = False
    sse: bool = False
    acp: bool = False


class SessionListCapabilities(Model):
    """Marks `session/list`."""


class SessionDeleteCapabilities(Model):
    """Marks `session/delete`."""


class SessionResumeCapabilities(Model):
    """Marks `session/resume`."""


class SessionCloseCapabilities(Model):
    """Marks `session/close`."""


class SessionAdditionalDirectoriesCapabilities(Model):
    """Marks that a session may have more roots than its `cwd`."""


class SessionForkCapabilities(Model):
    """Marks `session/fork`.  Unstable."""


class SessionArchiveCapabilities(Model):
    """Marks `session/archive` and `session/unarchive`.  Unstable."""


class SessionStatusCapabilities(Model):
    """Marks `session/status`.  Unstable."""


class SessionTitleCapabilities(Model):
    """Marks `session/set_title`.  Unstable."""


class SessionSystemPromptOverrideCapabilities(Model):
    """Marks that the system prompt may be replaced, not only added to.  Unstable."""


class SessionSystemPromptModeCapabilities(Model, kw_only=True):
    """What a system prompt may do besides being appended."""

    override: SessionSystemPromptOverrideCapabilities | None = None


class SessionSystemPromptCapabilities(Model, kw_only=True):
    """Marks that a session may bring a system prompt.  Unstable."""

    mode: SessionSystemPromptModeCapabilities | None = None


class SessionCapabilities(Model, kw_only=True):
    """The session methods the agent answers besides `session/new`; None means it does not."""

    list: SessionListCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    resume: SessionResumeCapabilities | None = None
    close: SessionCloseCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    fork: SessionForkCapabilities | None = None
    archive: SessionArchiveCapabilities | None = None
    status: SessionStatusCapabilities | None = None
    title: SessionTitleCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None


class LogoutCapabilities(Model):
    """Marks `logout`."""


class AuthStatusCapabilities(Model):
    """Marks `auth/status` and `auth/status_update`.  Unstable."""


class AgentAuthCapabilities(Model, kw_only=True):
    """What the agent offers for logins: `logout` and the status."""

    logout: LogoutCapabilities | None = None
    status: AuthStatusCapabilities | None = None


class ProvidersCapabilities(Model):
    """Marks `providers/*`.  Unstable."""


class AgentCapabilities(Model, kw_only=True):
    """Everything an agent offers; what is missing must not be asked of it."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()
    providers: ProvidersCapabilities | None = None
    # Frozen with next edit suggestions:
    nes: NesCapabilities | None = None
    position_encoding: PositionEncodingKind | None = None


class InitializeResponse(Model, kw_only=True):
    """The version both will speak, and what the agent offers."""

    protocol_version: ProtocolVersion
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: Sequence[AuthMethod] = []
    agent_info: Implementation | None = None
