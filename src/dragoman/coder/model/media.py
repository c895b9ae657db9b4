"""Pictures, sounds and documents for providers: checked by their content, never by their name."""

import base64
import binascii
import re
from collections.abc import Sequence

from ..context.history import Media, Part, TextPart

MAX_BYTES = 5 * 1024 * 1024  # of one
MAX_TOTAL = 15 * 1024 * 1024  # bytes of all media in one message
MAX_QUOTED = 100  # characters quoted from a file whose type is not the declared one
_BLANK = re.compile(r"\s+")
_SIGNATURES: Sequence[tuple[str, re.Pattern[bytes]]] = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    ("application/pdf", re.compile(rb".{0,1024}?%PDF-", re.DOTALL)),
    ("audio/wav", re.compile(rb"RIFF....WAVE", re.DOTALL)),
    ("audio/aac", re.compile(rb"\xff[\xf0\xf1\xf8\xf9]")),
    ("audio/mpeg", re.compile(rb"ID3|\xff[\xe2-\xff]")),
    ("audio/ogg", re.compile(rb"OggS")),
    ("audio/flac", re.compile(rb"fLaC")),
    ("audio/aiff", re.compile(rb"FORM....AIF[FC]", re.DOTALL)),
)


def kind_of(media_type: str) -> str:
    """The media that a model is known to read: "image", "audio" or "document"."""
    first = media_type.partition("/")[0].strip().lower()
    return first if first in ("image", "audio") else "document"


def checked(media: Sequence[Media]) -> list[Part]:
    """The media that every provider accepts; others are replaced by a text with the reason."""
    found: list[Part] = []
    total = 0
    for part in media:
        data = _decoded(part.data)
        total += len(data or b"")
        found.append(_checked(part, data) if total <= MAX_TOTAL else _unread(part, "there are too many"))
    return found


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(_BLANK.sub("", data), validate=True)
    except (binascii.Error, ValueError):
        return None


def _checked(part: Media, data: bytes | None) -> Part:
    if not data:
        return _unread(part, "it is empty" if data is not None else "it is no base64")
    if len(data) > MAX_BYTES:
        return _unread(part, f"it has more than {MAX_BYTES // 2**20} MiB")
    kind = kind_of(part.media_type)
    real = next((name for name, signature in _SIGNATURES if signature.match(data)), None)
    if real is not None and kind_of(real) == kind:
        return Media(real, base64.b64encode(data).decode(), part.name)
    text = _text(data)
    if kind == "document" and text is not None:
        return TextPart(f"{part.name or 'A document'}:\n{text}")
    quoted = f"; it begins with {text.strip()[:MAX_QUOTED]!r}" if text else ""
    return _unread(part, f"its content is not of this type{quoted}")


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _unread(part: Media, why: str) -> TextPart:
    return TextPart(
        f"({part.name or 'Something'} of type {part.media_type[:MAX_QUOTED]} cannot be shown to you: {why}.)"
    )
