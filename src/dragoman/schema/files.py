"""Text files as the client has them, unsaved changes included.  Paths are absolute."""

from typing import ClassVar

from .base import Exact, Model, UInt32
from .protocol import SessionId


class ReadTextFileRequest(Model, kw_only=True):
    """At most `limit` lines from `line` on, counted from 1."""

    session_id: SessionId
    path: str
    line: Exact[UInt32 | None] = None
    limit: Exact[UInt32 | None] = None


class ReadTextFileResponse(Model, kw_only=True):
    """The text that was read."""

    content: str


class WriteTextFileRequest(Model, kw_only=True):
    """Replaces the file, or creates it."""

    is_verbatim: ClassVar[bool] = True

    session_id: SessionId
    path: str
    content: str


class WriteTextFileResponse(Model):
    """An empty response: it is done."""
