"""What is said: blocks of text, pictures, sound and files, shaped as MCP shapes them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from ..base import Model, Raw, UInt64
from ..content import EmbeddedResourceResource
from .base import MediaType

Role = Literal["assistant", "user"] | str
IconTheme = Literal["light", "dark"] | str


class Annotations(Model, kw_only=True):
    """Hints for whoever shows a block: for whom it is, how much it matters (0 to 1), how fresh it is."""

    audience: Sequence[Role] | None = None
    last_modified: str | None = None
    priority: Annotated[float, Meta(ge=0, le=1)] | None = None


class TextContent(Model, tag_field="type", tag="text", kw_only=True):
    """Text, usually Markdown."""

    text: str
    annotations: Annotations | None = None


class ImageContent(Model, tag_field="type", tag="image", kw_only=True):
    """A picture, base64 in `data`."""

    data: str
    mime_type: MediaType
    uri: str | None = None
    annotations: Annotations | None = None


class AudioContent(Model, tag_field="type", tag="audio", kw_only=True):
    """A sound, base64 in `data`."""

    data: str
    mime_type: MediaType
    annotations: Annotations | None = None


class Icon(Model, kw_only=True):
    """A picture to show beside a link, in the sizes it is good for."""

    src: str
    mime_type: MediaType | None = None
    sizes: Sequence[str] | None = None
    theme: IconTheme | None = None


class ResourceLink(Model, tag_field="type", tag="resource_link", kw_only=True):
    """Points at something the receiver can fetch itself."""

    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    mime_type: MediaType | None = None
    size: UInt64 | None = None
    annotations: Annotations | None = None


class EmbeddedResource(Model, tag_field="type", tag="resource", kw_only=True):
    """Brings the contents of a resource along."""

    resource: EmbeddedResourceResource
    annotations: Annotations | None = None


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Raw
