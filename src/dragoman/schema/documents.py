"""What the user has open in the editor: `document/*`, for next edit suggestions.  Frozen.

Lines and characters count from 0; what a character is, the two sides agree on in `initialize`.
"""

from collections.abc import Sequence
from typing import Literal

from .base import Exact, Int64, Lenient, Model, UInt32
from .protocol import SessionId

PositionEncodingKind = Literal["utf-16", "utf-32", "utf-8"]
TextDocumentSyncKind = Literal["full", "incremental"]


class Position(Model, kw_only=True):
    """A place in a document; both numbers count from 0."""

    line: UInt32
    character: UInt32


class Range(Model, kw_only=True):
    """A part of a document, from `start` up to but without `end`."""

    start: Position
    end: Position


class DidOpenDocumentNotification(Model, kw_only=True):
    """A document was opened."""

    session_id: SessionId
    uri: str
    language_id: str
    version: Int64
    text: str


class TextDocumentContentChangeEvent(Model, kw_only=True):
    """New text for a range, or without one for the whole document."""

    text: str
    range: Exact[Range | None] = None


class DidChangeDocumentNotification(Model, kw_only=True):
    """An open document changed."""

    session_id: SessionId
    uri: str
    version: Int64
    content_changes: Lenient[Sequence[TextDocumentContentChangeEvent]]


class DidCloseDocumentNotification(Model, kw_only=True):
    """A document was closed."""

    session_id: SessionId
    uri: str


class DidSaveDocumentNotification(Model, kw_only=True):
    """A document was saved."""

    session_id: SessionId
    uri: str


class DidFocusDocumentNotification(Model, kw_only=True):
    """The user moved to a document."""

    session_id: SessionId
    uri: str
    version: Int64
    position: Position
    visible_range: Range
