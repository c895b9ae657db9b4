"""The nouns of the protocol, v1: every message type, by topic; all of them can be imported from here."""

# Wrapped by hand: one name per line would be six hundred lines.
# fmt: off
# isort: off
from .auth import (
    AuthAccount, AuthMethod, AuthMethodAgent, AuthMethodId, AuthMethodTerminal, AuthState,
    AuthStatusRequest, AuthStatusResponse, AuthStatusUpdateNotification, AuthenticateRequest,
    AuthenticateResponse, LogoutRequest, LogoutResponse,
)
from .base import UNSET, JsonObject, Raw, RequestId, UnsetType
from .config_options import (
    SessionConfigBoolean, SessionConfigGroupId, SessionConfigId, SessionConfigOption,
    SessionConfigOptionCategory, SessionConfigSelect, SessionConfigSelectEntry, SessionConfigSelectGroup,
    SessionConfigSelectOption, SessionConfigSelectOptions, SessionConfigValueId,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
)
from .content import (
    Annotations, AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource,
    EmbeddedResourceResource, ImageContent, ResourceLink, Role, TextContent, TextResourceContents,
)
from .documents import (
    DidChangeDocumentNotification, DidCloseDocumentNotification, DidFocusDocumentNotification,
    DidOpenDocumentNotification, DidSaveDocumentNotification, Position, PositionEncodingKind, Range,
    TextDocumentContentChangeEvent, TextDocumentSyncKind,
)
from .elicitation import (
    BooleanPropertySchema, CompleteElicitationNotification, CreateElicitationRequest,
    CreateElicitationResponse, ElicitationAcceptAction, ElicitationCancel, ElicitationContentValue,
    ElicitationDecline, ElicitationId, ElicitationPropertySchema, ElicitationSchema,
    ElicitationSchemaType, EnumOption, FormElicitation, IntegerPropertySchema, MultiSelectItems,
    MultiSelectPropertySchema, NumberPropertySchema, StringFormat, StringMultiSelectItems,
    StringPropertySchema, TitledMultiSelectItems, UrlElicitation,
)
from .files import ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest, WriteTextFileResponse
from .handshake import (
    AgentAuthCapabilities, AgentCapabilities, AuthCapabilities, AuthStatusCapabilities,
    BooleanConfigOptionCapabilities, ClientCapabilities, ClientSessionCapabilities,
    CompactionCapabilities, ElicitationCapabilities, ElicitationFormCapabilities,
    ElicitationUrlCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
    InitializeResponse, LogoutCapabilities, McpCapabilities, NoticeCapabilities, PlanCapabilities,
    PromptCapabilities, ProtocolVersion, ProvidersCapabilities, SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionConfigOptionsCapabilities, SessionDeleteCapabilities, SessionForkCapabilities,
    SessionListCapabilities, SessionResumeCapabilities, SessionStatusCapabilities,
    SessionSystemPromptCapabilities, SessionSystemPromptModeCapabilities,
    SessionSystemPromptOverrideCapabilities, SessionTitleCapabilities, SubagentCapabilities,
)
from .mcp import (
    HttpHeader, McpError, McpRequestId, McpServer, McpServerAcp, McpServerAcpId, McpServerHttp,
    McpServerSse, McpServerStdio, MessageMcpNotification, MessageMcpRequest, MessageMcpResponse,
)
from .mcp_connection import (
    AnyMcpNotification, AnyMcpRequest, ConnectMcpRequest, ConnectMcpResponse, ConnectionMcpNotification,
    ConnectionMcpRequest, ConnectionMcpResponse, DisconnectMcpRequest, DisconnectMcpResponse,
    McpConnectionId,
)
from .nes import (
    AcceptNesNotification, ClientNesCapabilities, CloseNesRequest, CloseNesResponse, NesCapabilities,
    NesContextCapabilities, NesDiagnostic, NesDiagnosticSeverity, NesDiagnosticsCapabilities,
    NesDocumentDidChangeCapabilities, NesDocumentDidCloseCapabilities, NesDocumentDidFocusCapabilities,
    NesDocumentDidOpenCapabilities, NesDocumentDidSaveCapabilities, NesDocumentEventCapabilities,
    NesEditHistoryCapabilities, NesEditHistoryEntry, NesEditSuggestion, NesEventCapabilities, NesExcerpt,
    NesJumpCapabilities, NesJumpSuggestion, NesOpenFile, NesOpenFilesCapabilities, NesRecentFile,
    NesRecentFilesCapabilities, NesRejectReason, NesRelatedSnippet, NesRelatedSnippetsCapabilities,
    NesRenameCapabilities, NesRenameSuggestion, NesRepository, NesSearchAndReplaceCapabilities,
    NesSearchAndReplaceSuggestion, NesSuggestContext, NesSuggestion, NesSuggestionId, NesTextEdit,
    NesTriggerKind, NesUserAction, NesUserActionsCapabilities, RejectNesNotification, StartNesRequest,
    StartNesResponse, SuggestNesRequest, SuggestNesResponse, WorkspaceFolder,
)
from .permissions import (
    CancelledPermissionOutcome, PermissionOption, PermissionOptionId, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from .plans import (
    Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanFile, PlanId, PlanItems, PlanMarkdown,
    PlanRemoved, PlanUpdate, PlanUpdateContent,
)
from .prompts import CancelNotification, PromptRequest, PromptResponse, StopReason, Usage
from .protocol import CancelRequestNotification, Error, ErrorCode, MessageId, SessionId
from .providers import (
    DisableProviderRequest, DisableProviderResponse, ListProvidersRequest, ListProvidersResponse,
    LlmProtocol, ProviderCurrentConfig, ProviderId, ProviderInfo, SetProviderRequest, SetProviderResponse,
)
from .proxies import (
    InitializeProxyRequest, InitializeProxyResponse, ProxySuccessorNotification, ProxySuccessorRequest,
    ProxySuccessorResponse,
)
from .sessions import (
    ArchiveSessionRequest, ArchiveSessionResponse, CloseSessionRequest, CloseSessionResponse,
    DeleteSessionRequest, DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse, SessionArchiveFilter, SessionInfo,
    SessionMode, SessionModeId, SessionModeState, SessionStatus, SessionStatusRequest,
    SessionStatusResponse, SetSessionModeRequest, SetSessionModeResponse, SetSessionTitleRequest,
    SetSessionTitleResponse, SystemPrompt, SystemPromptMode, UnarchiveSessionRequest,
    UnarchiveSessionResponse,
)
from .subagents import (
    IdleStateUpdate, RequiresActionStateUpdate, RunningStateUpdate, SessionCancelCapabilities,
    SessionMessage, SessionMessageChunk, StateUpdate, SubagentSessionCapabilities, SubagentUpdate,
    UnknownStateUpdate,
)
from .terminals import (
    CreateTerminalRequest, CreateTerminalResponse, EnvVariable, KillTerminalRequest, KillTerminalResponse,
    ReleaseTerminalRequest, ReleaseTerminalResponse, TerminalExitStatus, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from .tools import (
    Content, Diff, Terminal, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdated, ToolKind,
)
from .updates import (
    AgentMessageChunk, AgentThoughtChunk, AvailableCommand, AvailableCommandInput,
    AvailableCommandsUpdate, CompactionId, CompactionStatus, CompactionSummaryChunk, CompactionUpdate,
    ConfigOptionUpdate, ContentChunk, Cost, CurrentModeUpdate, Notice, NoticeSeverity, SessionInfoUpdate,
    SessionNotification, SessionUpdate, UnstructuredCommandInput, UsageUpdate, UserMessageChunk,
)

__all__ = [
    "UNSET", "AcceptNesNotification", "AgentAuthCapabilities", "AgentCapabilities", "AgentMessageChunk",
    "AgentThoughtChunk", "Annotations", "AnyMcpNotification", "AnyMcpRequest", "ArchiveSessionRequest",
    "ArchiveSessionResponse", "AudioContent", "AuthAccount", "AuthCapabilities", "AuthMethod",
    "AuthMethodAgent", "AuthMethodId", "AuthMethodTerminal", "AuthState", "AuthStatusCapabilities",
    "AuthStatusRequest", "AuthStatusResponse", "AuthStatusUpdateNotification", "AuthenticateRequest",
    "AuthenticateResponse", "AvailableCommand", "AvailableCommandInput", "AvailableCommandsUpdate",
    "BlobResourceContents", "BooleanConfigOptionCapabilities", "BooleanPropertySchema",
    "CancelNotification", "CancelRequestNotification", "CancelledPermissionOutcome", "ClientCapabilities",
    "ClientNesCapabilities", "ClientSessionCapabilities", "CloseNesRequest", "CloseNesResponse",
    "CloseSessionRequest", "CloseSessionResponse", "CompactionCapabilities", "CompactionId",
    "CompactionStatus", "CompactionSummaryChunk", "CompactionUpdate", "CompleteElicitationNotification",
    "ConfigOptionUpdate", "ConnectMcpRequest", "ConnectMcpResponse", "ConnectionMcpNotification",
    "ConnectionMcpRequest", "ConnectionMcpResponse", "Content", "ContentBlock", "ContentChunk", "Cost",
    "CreateElicitationRequest", "CreateElicitationResponse", "CreateTerminalRequest",
    "CreateTerminalResponse", "CurrentModeUpdate", "DeleteSessionRequest", "DeleteSessionResponse",
    "DidChangeDocumentNotification", "DidCloseDocumentNotification", "DidFocusDocumentNotification",
    "DidOpenDocumentNotification", "DidSaveDocumentNotification", "Diff", "DisableProviderRequest",
    "DisableProviderResponse", "DisconnectMcpRequest", "DisconnectMcpResponse", "ElicitationAcceptAction",
    "ElicitationCancel", "ElicitationCapabilities", "ElicitationContentValue", "ElicitationDecline",
    "ElicitationFormCapabilities", "ElicitationId", "ElicitationPropertySchema", "ElicitationSchema",
    "ElicitationSchemaType", "ElicitationUrlCapabilities", "EmbeddedResource", "EmbeddedResourceResource",
    "EnumOption", "EnvVariable", "Error", "ErrorCode", "FileSystemCapabilities", "ForkSessionRequest",
    "ForkSessionResponse", "FormElicitation", "HttpHeader", "IdleStateUpdate", "ImageContent",
    "Implementation", "InitializeProxyRequest", "InitializeProxyResponse", "InitializeRequest",
    "InitializeResponse", "IntegerPropertySchema", "JsonObject", "KillTerminalRequest",
    "KillTerminalResponse", "ListProvidersRequest", "ListProvidersResponse", "ListSessionsRequest",
    "ListSessionsResponse", "LlmProtocol", "LoadSessionRequest", "LoadSessionResponse",
    "LogoutCapabilities", "LogoutRequest", "LogoutResponse", "McpCapabilities", "McpConnectionId",
    "McpError", "McpRequestId", "McpServer", "McpServerAcp", "McpServerAcpId", "McpServerHttp",
    "McpServerSse", "McpServerStdio", "MessageId", "MessageMcpNotification", "MessageMcpRequest",
    "MessageMcpResponse", "MultiSelectItems", "MultiSelectPropertySchema", "NesCapabilities",
    "NesContextCapabilities", "NesDiagnostic", "NesDiagnosticSeverity", "NesDiagnosticsCapabilities",
    "NesDocumentDidChangeCapabilities", "NesDocumentDidCloseCapabilities",
    "NesDocumentDidFocusCapabilities", "NesDocumentDidOpenCapabilities", "NesDocumentDidSaveCapabilities",
    "NesDocumentEventCapabilities", "NesEditHistoryCapabilities", "NesEditHistoryEntry",
    "NesEditSuggestion", "NesEventCapabilities", "NesExcerpt", "NesJumpCapabilities", "NesJumpSuggestion",
    "NesOpenFile", "NesOpenFilesCapabilities", "NesRecentFile", "NesRecentFilesCapabilities",
    "NesRejectReason", "NesRelatedSnippet", "NesRelatedSnippetsCapabilities", "NesRenameCapabilities",
    "NesRenameSuggestion", "NesRepository", "NesSearchAndReplaceCapabilities",
    "NesSearchAndReplaceSuggestion", "NesSuggestContext", "NesSuggestion", "NesSuggestionId",
    "NesTextEdit", "NesTriggerKind", "NesUserAction", "NesUserActionsCapabilities", "NewSessionRequest",
    "NewSessionResponse", "Notice", "NoticeCapabilities", "NoticeSeverity", "NumberPropertySchema",
    "PermissionOption", "PermissionOptionId", "PermissionOptionKind", "Plan", "PlanCapabilities",
    "PlanEntry", "PlanEntryPriority", "PlanEntryStatus", "PlanFile", "PlanId", "PlanItems",
    "PlanMarkdown", "PlanRemoved", "PlanUpdate", "PlanUpdateContent", "Position", "PositionEncodingKind",
    "PromptCapabilities", "PromptRequest", "PromptResponse", "ProtocolVersion", "ProviderCurrentConfig",
    "ProviderId", "ProviderInfo", "ProvidersCapabilities", "ProxySuccessorNotification",
    "ProxySuccessorRequest", "ProxySuccessorResponse", "Range", "Raw", "ReadTextFileRequest",
    "ReadTextFileResponse", "RejectNesNotification", "ReleaseTerminalRequest", "ReleaseTerminalResponse",
    "RequestId", "RequestPermissionOutcome", "RequestPermissionRequest", "RequestPermissionResponse",
    "RequiresActionStateUpdate", "ResourceLink", "ResumeSessionRequest", "ResumeSessionResponse", "Role",
    "RunningStateUpdate", "SelectedPermissionOutcome", "SessionAdditionalDirectoriesCapabilities",
    "SessionArchiveCapabilities", "SessionArchiveFilter", "SessionCancelCapabilities",
    "SessionCapabilities", "SessionCloseCapabilities", "SessionConfigBoolean", "SessionConfigGroupId",
    "SessionConfigId", "SessionConfigOption", "SessionConfigOptionCategory",
    "SessionConfigOptionsCapabilities", "SessionConfigSelect", "SessionConfigSelectEntry",
    "SessionConfigSelectGroup", "SessionConfigSelectOption", "SessionConfigSelectOptions",
    "SessionConfigValueId", "SessionDeleteCapabilities", "SessionForkCapabilities", "SessionId",
    "SessionInfo", "SessionInfoUpdate", "SessionListCapabilities", "SessionMessage",
    "SessionMessageChunk", "SessionMode", "SessionModeId", "SessionModeState", "SessionNotification",
    "SessionResumeCapabilities", "SessionStatus", "SessionStatusCapabilities", "SessionStatusRequest",
    "SessionStatusResponse", "SessionSystemPromptCapabilities", "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities", "SessionTitleCapabilities", "SessionUpdate",
    "SetProviderRequest", "SetProviderResponse", "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse", "SetSessionModeRequest", "SetSessionModeResponse",
    "SetSessionTitleRequest", "SetSessionTitleResponse", "StartNesRequest", "StartNesResponse",
    "StateUpdate", "StopReason", "StringFormat", "StringMultiSelectItems", "StringPropertySchema",
    "SubagentCapabilities", "SubagentSessionCapabilities", "SubagentUpdate", "SuggestNesRequest",
    "SuggestNesResponse", "SystemPrompt", "SystemPromptMode", "Terminal", "TerminalExitStatus",
    "TerminalId", "TerminalOutputRequest", "TerminalOutputResponse", "TextContent",
    "TextDocumentContentChangeEvent", "TextDocumentSyncKind", "TextResourceContents",
    "TitledMultiSelectItems", "ToolCall", "ToolCallContent", "ToolCallId", "ToolCallLocation",
    "ToolCallStatus", "ToolCallUpdate", "ToolCallUpdated", "ToolKind", "UnarchiveSessionRequest",
    "UnarchiveSessionResponse", "UnknownStateUpdate", "UnsetType", "UnstructuredCommandInput",
    "UrlElicitation", "Usage", "UsageUpdate", "UserMessageChunk", "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse", "WorkspaceFolder", "WriteTextFileRequest", "WriteTextFileResponse",
]
