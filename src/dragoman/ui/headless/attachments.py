"""Files attached to a prompt: their content if the agent accepts it, else a link."""

import base64
import mimetypes
from collections.abc import Iterable
from pathlib import Path

from ... import schema as s
from ...host.disk import plain_content
from .terms import WrongArgument

EMBEDDED = 256 * 1024  # bytes of an attached text; a longer one becomes a link
PICTURE = 5 * 1024 * 1024  # bytes of a picture or a sound


def attached(files: Iterable[Path], takes: s.PromptCapabilities) -> list[s.ContentBlock]:
    """A block for each file."""
    blocks = []
    for file in files:
        try:
            blocks.append(_block(file.resolve(), takes))
        except OSError as exc:
            raise WrongArgument(f"the file {str(file)!r} cannot be read: {exc.strerror}") from exc
    return blocks


def _block(file: Path, takes: s.PromptCapabilities) -> s.ContentBlock:
    size = file.stat().st_size
    kind, _ = mimetypes.guess_type(file.name)
    if takes.image and (kind or "").startswith("image/") and size <= PICTURE:
        return s.ImageContent(data=_base64(file), mime_type=str(kind), uri=file.as_uri())
    if takes.audio and (kind or "").startswith("audio/") and size <= PICTURE:
        return s.AudioContent(data=_base64(file), mime_type=str(kind))
    if takes.embedded_context and size <= EMBEDDED and (text := _text(file)) is not None:
        resource = s.TextResourceContents(uri=file.as_uri(), text=text, mime_type=kind)
        return s.EmbeddedResource(resource=resource)
    return s.ResourceLink(name=file.name, uri=file.as_uri(), mime_type=kind, size=size)


def _base64(file: Path) -> str:
    return base64.b64encode(plain_content(file, PICTURE)).decode()


def _text(file: Path) -> str | None:
    try:
        text = plain_content(file, EMBEDDED).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
