"""What is said: blocks of text, pictures, sound and files, shaped as MCP shapes them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from .base import Int64, Model, Raw, Shape

Role = Literal["assistant", "user"]


class Annotations(Model, kw_only=True):
    """Hints for whoever shows a block: for whom it is, how much it matters, how fresh it is."""

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    priority: float | None = None


class TextContent(Model, tag_field="type", tag="text", kw_only=True):
    """Text, usually Markdown."""

    text: str
    annotations: Annotations | None = None


class ImageContent(Model, tag_field="type", tag="image", kw_only=True):
    """A picture, base64 in `data`."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


class AudioContent(Model, tag_field="type", tag="audio", kw_only=True):
    """A sound, base64 in `data`."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Model, tag_field="type", tag="resource_link", kw_only=True):
    """Points at something the receiver can fetch itself."""

    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Int64 | None = None
    annotations: Annotations | None = None


class TextResourceContents(Model, kw_only=True):
    """The text of a resource."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobResourceContents(Model, kw_only=True):
    """Bytes of a resource, base64 in `blob`."""

    uri: str
    blob: str
    mime_type: str | None = None


if TYPE_CHECKING:
    EmbeddedResourceResource = TextResourceContents | BlobResourceContents
else:

    class EmbeddedResourceResource(Shape, keys={"text": TextResourceContents, "blob": BlobResourceContents}):
        """Text or bytes: nothing but the key that holds them tells the two apart."""


class EmbeddedResource(Model, tag_field="type", tag="resource", kw_only=True):
    """Brings the contents of a resource along."""

    resource: EmbeddedResourceResource
    annotations: Annotations | None = None


# Raw, here and in every union below: a kind we do not know stays what it was, byte for byte.
ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Raw
