"""A user's prompt in the form a model gets."""

from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

from ... import schema as s
from ..model.media import kind_of
from .history import Media, Part, TextPart


def parts_of(prompt: Sequence[s.ContentBlock], takes: frozenset[str]) -> tuple[list[Part], list[str]]:
    """The readable parts of a prompt, and the names of the unreadable ones; attached texts come last."""
    parts: list[Part] = []
    attached: list[Part] = []
    unread: list[str] = []
    for block in prompt:
        match block:
            case s.TextContent(text=text):
                parts.append(TextPart(text))
            case s.ResourceLink(uri=uri, name=name):
                parts.append(TextPart(f"[@{name}]({_place(uri)})"))
            case s.ImageContent(mime_type=media, data=data) | s.AudioContent(mime_type=media, data=data):
                (parts if kind_of(media) in takes else attached).extend(_media(media, data, "", takes, unread))
            case s.EmbeddedResource(resource=s.TextResourceContents(uri=uri, text=text)):
                parts.append(TextPart(f"[@{_place(uri).rpartition('/')[2]}]({_place(uri)})"))
                attached.append(TextPart(f'<context ref="{_place(uri)}">\n{text}\n</context>'))
            case s.EmbeddedResource(resource=s.BlobResourceContents(uri=uri, blob=blob, mime_type=media)):
                attached += _media(media or "application/octet-stream", blob, _place(uri), takes, unread)
    return parts + attached, unread


def _media(media: str, data: str, name: str, takes: frozenset[str], unread: list[str]) -> Iterator[Part]:
    kind = kind_of(media)
    if kind in takes:
        yield Media(media, data, name)
    else:
        unread.append(name or kind)
        yield TextPart(f"(Here the user attached {name or 'something'} of type {media}, which you cannot read.)")


def _place(uri: str) -> str:
    """The path of a file, or the URI of any other resource."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # not a valid URI
        return uri
    return unquote(parts.path) if parts.scheme == "file" else uri
