"""Next edit suggestions: `nes/*`, and which events and context an agent wants for them.  Frozen."""

from collections.abc import Sequence
from typing import Literal

from .base import Exact, Int64, Model, Raw, UInt32, UInt64
from .documents import Position, Range, TextDocumentSyncKind
from .protocol import SessionId

NesSuggestionId = str
NesDiagnosticSeverity = Literal["error", "warning", "information", "hint"]
NesRejectReason = Literal["rejected", "ignored", "replaced", "cancelled"]
NesTriggerKind = Literal["automatic", "diagnostic", "manual"]


# ── what each side can do ─────────────────────────────────────────────────────────────────────────


class NesJumpCapabilities(Model):
    """Marks that the client can show jumps."""


class NesRenameCapabilities(Model):
    """Marks that the client can show renames."""


class NesSearchAndReplaceCapabilities(Model):
    """Marks that the client can show replacements."""


class ClientNesCapabilities(Model, kw_only=True):
    """The kinds of suggestion a client takes besides edits."""

    jump: NesJumpCapabilities | None = None
    rename: NesRenameCapabilities | None = None
    search_and_replace: NesSearchAndReplaceCapabilities | None = None


class NesDocumentDidOpenCapabilities(Model):
    """Asks for `document/didOpen`."""


class NesDocumentDidChangeCapabilities(Model, kw_only=True):
    """Asks for `document/didChange`, with whole texts or only what changed."""

    sync_kind: TextDocumentSyncKind


class NesDocumentDidCloseCapabilities(Model):
    """Asks for `document/didClose`."""


class NesDocumentDidSaveCapabilities(Model):
    """Asks for `document/didSave`."""


class NesDocumentDidFocusCapabilities(Model):
    """Asks for `document/didFocus`."""


class NesDocumentEventCapabilities(Model, kw_only=True):
    """The document events the agent wants to receive."""

    did_open: NesDocumentDidOpenCapabilities | None = None
    did_change: NesDocumentDidChangeCapabilities | None = None
    did_close: NesDocumentDidCloseCapabilities | None = None
    did_save: NesDocumentDidSaveCapabilities | None = None
    did_focus: NesDocumentDidFocusCapabilities | None = None


class NesEventCapabilities(Model, kw_only=True):
    """The events the agent wants to receive."""

    document: NesDocumentEventCapabilities | None = None


class NesRecentFilesCapabilities(Model, kw_only=True):
    """Asks for recently used files, at most `max_count` of them."""

    max_count: UInt32 | None = None


class NesRelatedSnippetsCapabilities(Model):
    """Asks for related snippets."""


class NesEditHistoryCapabilities(Model, kw_only=True):
    """Asks for recent edits, at most `max_count` of them."""

    max_count: UInt32 | None = None


class NesUserActionsCapabilities(Model, kw_only=True):
    """Asks for recent user actions, at most `max_count` of them."""

    max_count: UInt32 | None = None


class NesOpenFilesCapabilities(Model):
    """Asks for the open files."""


class NesDiagnosticsCapabilities(Model):
    """Asks for diagnostics."""


class NesContextCapabilities(Model, kw_only=True):
    """The kinds of context the agent wants with each request for suggestions."""

    recent_files: NesRecentFilesCapabilities | None = None
    related_snippets: NesRelatedSnippetsCapabilities | None = None
    edit_history: NesEditHistoryCapabilities | None = None
    user_actions: NesUserActionsCapabilities | None = None
    open_files: NesOpenFilesCapabilities | None = None
    diagnostics: NesDiagnosticsCapabilities | None = None


class NesCapabilities(Model, kw_only=True):
    """What an agent wants to be told; it is told nothing else."""

    events: NesEventCapabilities | None = None
    context: NesContextCapabilities | None = None


# ── a session of its own ──────────────────────────────────────────────────────────────────────────


class WorkspaceFolder(Model, kw_only=True):
    """A folder of the workspace."""

    uri: str
    name: str


class NesRepository(Model, kw_only=True):
    """The repository of the workspace, as its host knows it."""

    name: str
    owner: str
    remote_url: str


class StartNesRequest(Model, kw_only=True):
    """Opens a session for next edit suggestions in a workspace."""

    workspace_uri: str | None = None
    workspace_folders: Exact[Sequence[WorkspaceFolder] | None] = None
    repository: NesRepository | None = None


class StartNesResponse(Model, kw_only=True):
    """The id of the session for next edit suggestions."""

    session_id: SessionId


class CloseNesRequest(Model, kw_only=True):
    """Ends a session for next edit suggestions."""

    session_id: SessionId


class CloseNesResponse(Model):
    """An empty response: it is done."""


# ── what the agent is told ────────────────────────────────────────────────────────────────────────


class NesRecentFile(Model, kw_only=True):
    """A recently used file and its text."""

    uri: str
    language_id: str
    text: str


class NesExcerpt(Model, kw_only=True):
    """Some lines of a file."""

    start_line: UInt32
    end_line: UInt32
    text: str


class NesRelatedSnippet(Model, kw_only=True):
    """Excerpts of a file that are related to the position."""

    uri: str
    excerpts: Sequence[NesExcerpt]


class NesEditHistoryEntry(Model, kw_only=True):
    """A recent edit of a document, as a diff."""

    uri: str
    diff: str


class NesUserAction(Model, kw_only=True):
    """Something the user did in the editor, and when."""

    action: str
    uri: str
    position: Position
    timestamp_ms: UInt64


class NesOpenFile(Model, kw_only=True):
    """A file open in the editor."""

    uri: str
    language_id: str
    visible_range: Range | None = None
    last_focused_ms: UInt64 | None = None


class NesDiagnostic(Model, kw_only=True):
    """A problem the editor shows in a document."""

    uri: str
    range: Range
    severity: NesDiagnosticSeverity
    message: str


class NesSuggestContext(Model, kw_only=True):
    """The context the agent asked for in its capabilities."""

    recent_files: Exact[Sequence[NesRecentFile] | None] = None
    related_snippets: Exact[Sequence[NesRelatedSnippet] | None] = None
    edit_history: Exact[Sequence[NesEditHistoryEntry] | None] = None
    user_actions: Exact[Sequence[NesUserAction] | None] = None
    open_files: Exact[Sequence[NesOpenFile] | None] = None
    diagnostics: Exact[Sequence[NesDiagnostic] | None] = None


class SuggestNesRequest(Model, kw_only=True):
    """Asks for suggestions at a position of a document."""

    session_id: SessionId
    uri: str
    version: Int64
    position: Position
    trigger_kind: NesTriggerKind
    selection: Exact[Range | None] = None
    context: Exact[NesSuggestContext | None] = None


# ── what it suggests ──────────────────────────────────────────────────────────────────────────────


class NesTextEdit(Model, kw_only=True):
    """New text for a range of a document."""

    range: Range
    new_text: str


class NesEditSuggestion(Model, tag_field="kind", tag="edit", kw_only=True):
    """Suggests edits of one document, and where the cursor goes afterwards."""

    id: NesSuggestionId
    uri: str
    edits: Sequence[NesTextEdit]
    cursor_position: Position | None = None


class NesJumpSuggestion(Model, tag_field="kind", tag="jump", kw_only=True):
    """The next edit is likely over there."""

    id: NesSuggestionId
    uri: str
    position: Position


class NesRenameSuggestion(Model, tag_field="kind", tag="rename", kw_only=True):
    """Suggests a new name for the symbol at a position."""

    id: NesSuggestionId
    uri: str
    position: Position
    new_name: str


class NesSearchAndReplaceSuggestion(Model, tag_field="kind", tag="searchAndReplace", kw_only=True):
    """Suggests replacing a text or a pattern throughout a document."""

    id: NesSuggestionId
    uri: str
    search: str
    replace: str
    is_regex: Exact[bool | None] = None


NesSuggestion = NesEditSuggestion | NesJumpSuggestion | NesRenameSuggestion | NesSearchAndReplaceSuggestion | Raw


class SuggestNesResponse(Model, kw_only=True):
    """The suggestions, best first."""

    suggestions: Sequence[NesSuggestion]


class AcceptNesNotification(Model, kw_only=True):
    """The user took a suggestion."""

    session_id: SessionId
    id: NesSuggestionId


class RejectNesNotification(Model, kw_only=True):
    """The user did not take a suggestion."""

    session_id: SessionId
    id: NesSuggestionId
    reason: NesRejectReason | None = None
