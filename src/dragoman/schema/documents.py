"""What the user has open in the editor: `document/*`, for next edit suggestions.  Frozen.

Lines and characters count from 0; what a character is, the two sides agree on in `initialize`.
"""

from collections.abc import Sequence
from typing import Literal

from .base import Exact, Int64, Lenient, Model, UInt32
from .protocol import SessionId

PositionEncodingKind = Literal["utf-16", "utf-32", "utf-8"]
TextDocumentSyncKind = Literal["full", "incremental"]


class Position(Model):
    line: UInt32
    character: UInt32


class Range(Model):
    start: Position
    end: Position


class DidOpenDocumentNotification(Model):
    session_id: SessionId
    uri: str
    language_id: str
    version: Int64
    text: str


class TextDocumentContentChangeEvent(Model):
    """New text for a range, or without one for the whole document."""

    text: str
    range: Exact[Range | None] = None


class DidChangeDocumentNotification(Model):
    session_id: SessionId
    uri: str
    version: Int64
    content_changes: Lenient[Sequence[TextDocumentContentChangeEvent]]


class DidCloseDocumentNotification(Model):
    session_id: SessionId
    uri: str


class DidSaveDocumentNotification(Model):
    session_id: SessionId
    uri: str


class DidFocusDocumentNotification(Model):
    session_id: SessionId
    uri: str
    version: Int64
    position: Position
    visible_range: Range
