"""The nouns of the protocol, v2 (a draft): every message type, by topic; all of them can be imported from here.

What has the shape it has in v1 is the type of v1.
"""

# Wrapped by hand: one name per line would be six hundred lines.
# fmt: off
# isort: off
from ..base import UNSET, JsonObject, Raw, UnsetType
from ..auth import (
    AuthAccount, AuthMethodId, AuthState, AuthStatusRequest, AuthStatusResponse,
    AuthStatusUpdateNotification,
)
from ..config_options import (
    SessionConfigGroupId, SessionConfigId, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionConfigValueId,
)
from ..content import BlobResourceContents, EmbeddedResourceResource, TextResourceContents
from ..elicitation import (
    BooleanPropertySchema, CompleteElicitationNotification, ElicitationCancel, ElicitationDecline,
    ElicitationId, ElicitationSchemaType, EnumOption, IntegerPropertySchema, NumberPropertySchema,
)
from ..handshake import (
    AuthStatusCapabilities, ElicitationCapabilities, ElicitationFormCapabilities,
    ElicitationUrlCapabilities, Implementation, ProtocolVersion, ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities, SessionArchiveCapabilities, SessionDeleteCapabilities,
    SessionForkCapabilities, SessionStatusCapabilities, SessionSystemPromptCapabilities,
    SessionSystemPromptModeCapabilities, SessionSystemPromptOverrideCapabilities,
    SessionTitleCapabilities,
)
from ..mcp import (
    HttpHeader, McpError, McpRequestId, McpServerAcp, McpServerAcpId, MessageMcpNotification,
    MessageMcpRequest, MessageMcpResponse,
)
from ..permissions import PermissionOptionId, SelectedPermissionOutcome
from ..plans import PlanFile, PlanId, PlanMarkdown, PlanRemoved
from ..prompts import Usage
from ..protocol import MessageId, SessionId
from ..providers import (
    DisableProviderRequest, DisableProviderResponse, ListProvidersRequest, ListProvidersResponse,
    LlmProtocol, ProviderCurrentConfig, ProviderId, ProviderInfo, SetProviderRequest, SetProviderResponse,
)
from ..proxies import ProxySuccessorNotification, ProxySuccessorRequest, ProxySuccessorResponse
from ..sessions import (
    ArchiveSessionRequest, ArchiveSessionResponse, CloseSessionRequest, CloseSessionResponse,
    DeleteSessionRequest, DeleteSessionResponse, ListSessionsRequest, SessionArchiveFilter, SessionStatus,
    SessionStatusRequest, SetSessionTitleRequest, SetSessionTitleResponse, SystemPromptMode,
    UnarchiveSessionRequest, UnarchiveSessionResponse,
)
from ..subagents import SessionCancelCapabilities, SubagentSessionCapabilities
from ..terminals import EnvVariable, TerminalId
from ..tools import Terminal, ToolCallId
from ..updates import CompactionId, CompactionStatus, Cost, Notice, NoticeSeverity
from .auth import (
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, LoginAuthRequest, LoginAuthResponse,
    LogoutAuthRequest, LogoutAuthResponse,
)
from .base import AbsolutePath, MediaType, RequestId
from .commands import (
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, Command, TextCommandInput,
)
from .config_options import (
    SessionConfigBoolean, SessionConfigOption, SessionConfigSelect, SessionConfigSelectEntry,
    SessionConfigSelectGroup, SessionConfigSelectOptions, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
)
from .content import (
    Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, IconTheme, ImageContent, ResourceLink,
    Role, TextContent,
)
from .elicitation import (
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAcceptAction, ElicitationContentValue,
    ElicitationPropertySchema, ElicitationSchema, FormElicitation, MultiSelectItems,
    MultiSelectPropertySchema, StringFormat, StringMultiSelectItems, StringPropertySchema,
    TitledMultiSelectItems, UrlElicitation,
)
from .handshake import (
    AgentAuthCapabilities, AgentCapabilities, ClientAuthCapabilities, ClientCapabilities,
    InitializeRequest, InitializeResponse, McpAcpCapabilities, McpCapabilities, McpHttpCapabilities,
    McpStdioCapabilities, PromptAudioCapabilities, PromptCapabilities, PromptEmbeddedContextCapabilities,
    PromptImageCapabilities, SessionCapabilities, TerminalAuthCapabilities,
)
from .mcp import McpServer, McpServerHttp, McpServerStdio
from .permissions import (
    CancelledPermissionOutcome, CommandPermissionSubject, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    RequestPermissionSubject, ToolCallPermissionSubject,
)
from .plans import PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanItems, PlanUpdate, PlanUpdateContent
from .prompts import CancelSessionNotification, PromptRequest, PromptResponse
from .protocol import (
    CancelRequestNotification, Error, ErrorCode, ErrorData, SessionNotFoundErrorData,
    UnsupportedProtocolVersionErrorData,
)
from .proxies import InitializeProxyRequest, InitializeProxyResponse
from .sessions import (
    ForkSessionRequest, ForkSessionResponse, ListSessionsResponse, NewSessionRequest,
    NewSessionResponse, ReplayFrom, ReplayFromStart, ResumeSessionRequest, ResumeSessionResponse,
    SessionInfo, SessionListCursor, SessionStatusResponse, SystemPrompt,
)
from .states import (
    BackgroundSubagent, BackgroundTerminal, BackgroundToolCall, BackgroundWork, IdleStateUpdate,
    RequiresActionStateUpdate, RunningStateUpdate, StateUpdate, StateUpdated, UnknownStateUpdate,
)
from .subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from .terminals import (
    CancelTerminalRequest, CancelTerminalResponse, TerminalCancelCapabilities, TerminalCapabilities,
    TerminalExitStatus, TerminalOutput, TerminalOutputChunk, TerminalSize, TerminalUpdate,
)
from .tools import (
    CancelToolCallRequest, CancelToolCallResponse, Content, Diff, DiffAdd, DiffChange, DiffCopy,
    DiffDelete, DiffFileType, DiffModify, DiffMove, DiffPatch, DiffPatchFormat,
    ToolCallCancelCapabilities, ToolCallCapabilities, ToolCallContent, ToolCallContentChunk,
    ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdated, ToolKind,
)
from .updates import (
    AgentMessage, AgentMessageChunk, AgentThought, AgentThoughtChunk, CompactionSummaryChunk,
    CompactionUpdate, ConfigOptionUpdate, ContentChunk, SessionInfoUpdate, SessionUpdate,
    UpdateSessionNotification, UsageUpdate, UserMessage, UserMessageChunk,
)

__all__ = [
    "UNSET", "AbsolutePath", "AgentAuthCapabilities", "AgentCapabilities", "AgentMessage",
    "AgentMessageChunk", "AgentThought", "AgentThoughtChunk", "Annotations", "ArchiveSessionRequest",
    "ArchiveSessionResponse", "AudioContent", "AuthAccount", "AuthMethod", "AuthMethodAgent",
    "AuthMethodId", "AuthMethodTerminal", "AuthState", "AuthStatusCapabilities", "AuthStatusRequest",
    "AuthStatusResponse", "AuthStatusUpdateNotification", "AvailableCommand", "AvailableCommandInput",
    "AvailableCommandsUpdate", "BackgroundSubagent", "BackgroundTerminal", "BackgroundToolCall",
    "BackgroundWork", "BlobResourceContents", "BooleanPropertySchema", "CancelRequestNotification",
    "CancelSessionNotification", "CancelTerminalRequest", "CancelTerminalResponse",
    "CancelToolCallRequest", "CancelToolCallResponse", "CancelledPermissionOutcome",
    "ClientAuthCapabilities", "ClientCapabilities", "CloseSessionRequest", "CloseSessionResponse",
    "Command", "CommandPermissionSubject", "CompactionId", "CompactionStatus", "CompactionSummaryChunk",
    "CompactionUpdate", "CompleteElicitationNotification", "ConfigOptionUpdate", "Content",
    "ContentBlock", "ContentChunk", "Cost", "CreateElicitationRequest", "CreateElicitationResponse",
    "DeleteSessionRequest", "DeleteSessionResponse", "Diff", "DiffAdd", "DiffChange", "DiffCopy",
    "DiffDelete", "DiffFileType", "DiffModify", "DiffMove", "DiffPatch", "DiffPatchFormat",
    "DisableProviderRequest", "DisableProviderResponse", "ElicitationAcceptAction", "ElicitationCancel",
    "ElicitationCapabilities", "ElicitationContentValue", "ElicitationDecline",
    "ElicitationFormCapabilities", "ElicitationId", "ElicitationPropertySchema", "ElicitationSchema",
    "ElicitationSchemaType", "ElicitationUrlCapabilities", "EmbeddedResource", "EmbeddedResourceResource",
    "EnumOption", "EnvVariable", "Error", "ErrorCode", "ErrorData", "ForkSessionRequest",
    "ForkSessionResponse", "FormElicitation", "HttpHeader", "Icon", "IconTheme", "IdleStateUpdate",
    "ImageContent", "Implementation", "InitializeProxyRequest", "InitializeProxyResponse",
    "InitializeRequest", "InitializeResponse", "IntegerPropertySchema", "JsonObject",
    "ListProvidersRequest", "ListProvidersResponse", "ListSessionsRequest", "ListSessionsResponse",
    "LlmProtocol", "LoginAuthRequest", "LoginAuthResponse", "LogoutAuthRequest", "LogoutAuthResponse",
    "McpAcpCapabilities", "McpCapabilities", "McpError", "McpHttpCapabilities", "McpRequestId",
    "McpServer", "McpServerAcp", "McpServerAcpId", "McpServerHttp", "McpServerStdio",
    "McpStdioCapabilities", "MediaType", "MessageId", "MessageMcpNotification", "MessageMcpRequest",
    "MessageMcpResponse", "MultiSelectItems", "MultiSelectPropertySchema", "NewSessionRequest",
    "NewSessionResponse", "Notice", "NoticeSeverity", "NumberPropertySchema", "PermissionOption",
    "PermissionOptionId", "PermissionOptionKind", "PlanEntry", "PlanEntryPriority", "PlanEntryStatus",
    "PlanFile", "PlanId", "PlanItems", "PlanMarkdown", "PlanRemoved", "PlanUpdate", "PlanUpdateContent",
    "PromptAudioCapabilities", "PromptCapabilities", "PromptEmbeddedContextCapabilities",
    "PromptImageCapabilities", "PromptRequest", "PromptResponse", "ProtocolVersion",
    "ProviderCurrentConfig", "ProviderId", "ProviderInfo", "ProvidersCapabilities",
    "ProxySuccessorNotification", "ProxySuccessorRequest", "ProxySuccessorResponse", "Raw", "ReplayFrom",
    "ReplayFromStart", "RequestId", "RequestPermissionOutcome", "RequestPermissionRequest",
    "RequestPermissionResponse", "RequestPermissionSubject", "RequiresActionStateUpdate", "ResourceLink",
    "ResumeSessionRequest", "ResumeSessionResponse", "Role", "RunningStateUpdate",
    "SelectedPermissionOutcome", "SessionAdditionalDirectoriesCapabilities", "SessionArchiveCapabilities",
    "SessionArchiveFilter", "SessionCancelCapabilities", "SessionCapabilities", "SessionConfigBoolean",
    "SessionConfigGroupId", "SessionConfigId", "SessionConfigOption", "SessionConfigOptionCategory",
    "SessionConfigSelect", "SessionConfigSelectEntry", "SessionConfigSelectGroup",
    "SessionConfigSelectOption", "SessionConfigSelectOptions", "SessionConfigValueId",
    "SessionDeleteCapabilities", "SessionForkCapabilities", "SessionId", "SessionInfo",
    "SessionInfoUpdate", "SessionListCursor", "SessionMessage", "SessionMessageChunk",
    "SessionNotFoundErrorData", "SessionStatus", "SessionStatusCapabilities", "SessionStatusRequest",
    "SessionStatusResponse", "SessionSystemPromptCapabilities", "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities", "SessionTitleCapabilities", "SessionUpdate",
    "SetProviderRequest", "SetProviderResponse", "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse", "SetSessionTitleRequest", "SetSessionTitleResponse", "StateUpdate",
    "StateUpdated", "StringFormat", "StringMultiSelectItems", "StringPropertySchema",
    "SubagentSessionCapabilities", "SubagentUpdate", "SystemPrompt", "SystemPromptMode", "Terminal",
    "TerminalAuthCapabilities", "TerminalCancelCapabilities", "TerminalCapabilities",
    "TerminalExitStatus", "TerminalId", "TerminalOutput", "TerminalOutputChunk", "TerminalSize",
    "TerminalUpdate", "TextCommandInput", "TextContent", "TextResourceContents", "TitledMultiSelectItems",
    "ToolCallCancelCapabilities", "ToolCallCapabilities", "ToolCallContent", "ToolCallContentChunk",
    "ToolCallId", "ToolCallLocation", "ToolCallPermissionSubject", "ToolCallStatus", "ToolCallUpdate",
    "ToolCallUpdated", "ToolKind", "UnarchiveSessionRequest", "UnarchiveSessionResponse",
    "UnknownStateUpdate", "UnsetType", "UnsupportedProtocolVersionErrorData", "UpdateSessionNotification",
    "UrlElicitation", "Usage", "UsageUpdate", "UserMessage", "UserMessageChunk",
]
