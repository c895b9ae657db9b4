"""Attachments: a line with the size, which opens a picture or a sound."""

import base64
import binascii
import os
import tempfile
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from .... import schema as s
from ..words import line

SIGN = "⧉"
# The types that a viewer may open: pictures and sounds, which contain no program.
SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
}


def attachment_shown(block: s.ContentBlock, cwd: str = "") -> Content:
    """The line for a content block that is not text."""
    match block:
        case s.ResourceLink(name=name, uri=uri, size=size):
            return _line(name or _place(uri, cwd), "" if size is None else _bytes(size))
        case s.EmbeddedResource(resource=s.TextResourceContents(uri=uri, text=text)):
            return _line(_place(uri, cwd), f"{len(text):,} characters")
        case s.EmbeddedResource(resource=resource):
            return _line(_place(resource.uri, cwd), resource.mime_type or "")
        case s.ImageContent(data=data) | s.AudioContent(data=data):
            place = block.uri if isinstance(block, s.ImageContent) else None
            name = _place(place, cwd) if place else block.mime_type
            return _line(name, _bytes(len(data) * 3 // 4))
        case _:
            return Content.styled("content of a kind this version does not know", "$quiet")


def _line(name: str, more: str) -> Content:
    return Content.assemble((f"{SIGN} ", "$moving"), line(name, 80), "  ", line(more, 60, "$quiet"))


def _bytes(count: int) -> str:
    return f"{count:,} bytes" if count < 10_000 else f"{count / 1024:,.0f} KiB"


def _place(uri: str, cwd: str) -> str:
    """A file's path, relative to the session's directory if it is inside; any other URI is unchanged."""
    parts = urlsplit(uri) if uri.startswith("file://") else None
    if parts is None or parts.netloc not in ("", "localhost"):
        return uri
    path = unquote(parts.path)
    return path.removeprefix(f"{cwd}/") if cwd else path


class OpenedPictures:
    """Files that a viewer opens, in a temporary directory that is removed with the screen."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def open(self, block: s.ImageContent | s.AudioContent) -> str:
        """Open the attachment in the user's viewer; returns a message for the user."""
        suffix = SUFFIXES.get(block.mime_type.lower())
        if suffix is None:
            return f"no viewer is started for {line(block.mime_type, 40).plain}"
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return "it cannot be read: its data is no Base64"
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="dragoman-pictures-")
        self._count += 1
        path = Path(self._directory.name, f"{self._count}{suffix}")
        path.write_bytes(data)
        has_viewer = bool(
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
        )
        if has_viewer and webbrowser.open(path.as_uri()):
            return f"opened: {path}"
        return f"there is no viewer here; the file is {path}"

    def close(self) -> None:
        """Remove the files."""
        if self._directory is not None:
            self._directory.cleanup()


def widget_of(block: s.ContentBlock, cwd: str = "") -> Static:
    """The line of a block; the line of a picture or sound opens it."""
    if isinstance(block, s.ImageContent | s.AudioContent):
        return AttachmentLine(block, cwd)
    return Static(attachment_shown(block, cwd))


class AttachmentLine(Static, can_focus=True):
    """The line of a picture or sound; Enter opens it."""

    DEFAULT_CSS = """
    AttachmentLine { width: 1fr; height: auto; }
    AttachmentLine:focus { text-style: reverse; }
    """
    BINDINGS = [Binding("enter,space", "open", "open", show=False)]

    class OpenWanted(Message):
        """The user wants to open the attachment."""

        def __init__(self, block: s.ImageContent | s.AudioContent) -> None:
            super().__init__()
            self.block = block

    def __init__(self, block: s.ImageContent | s.AudioContent, cwd: str = "") -> None:
        super().__init__(Content.assemble(attachment_shown(block, cwd), ("  ^↑ ⏎ opens it", "$quiet")))
        self._block = block

    def action_open(self) -> None:
        """Open the attachment."""
        self.post_message(self.OpenWanted(self._block))

    def on_click(self) -> None:
        self.action_open()
