"""Servers' content as content blocks of the protocol, which have the same shapes as in MCP."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .. import schema as s

if TYPE_CHECKING:
    import mcp_types as types

MAX_SHOWN = 4 * 1024 * 1024  # characters of a result that a client is shown; a message to it has a limit, too
Clean = Callable[[str], str]  # removes the credentials of a server from a text


class ToolResult(Struct, frozen=True):
    """The result of a tool; `structured` is its structured content, None if it has none."""

    content: Sequence[s.ContentBlock]
    structured: object = None

    @property
    def text(self) -> str:
        """The words of the result, embedded text files among them."""
        return "\n".join(filter(None, map(words_of, self.content)))


class PromptMessage(Struct, frozen=True):
    """A message of a prompt, or of a conversation in a server's sampling request."""

    role: s.Role
    content: s.ContentBlock


def words_of(block: s.ContentBlock) -> str:
    """The text of a block; empty for a picture, a sound or bytes."""
    match block:
        case s.TextContent(text=text) | s.EmbeddedResource(resource=s.TextResourceContents(text=text)):
            return text
        case s.ResourceLink(name=name, uri=uri):
            return f"{name}: {uri}"
    return ""


def shown_of(result: ToolResult) -> Sequence[s.ContentBlock]:
    """The blocks of a result that a client is shown: the first ones, and how many others there are."""
    room = MAX_SHOWN
    for number, block in enumerate(result.content):
        room -= _size(block)
        if room < 0:
            left_out = s.TextContent(text=f"({len(result.content) - number} more blocks are too long to be shown.)")
            return [*result.content[:number], left_out]
    return result.content


def _size(block: s.ContentBlock) -> int:
    match block:
        case s.TextContent(text=data) | s.ImageContent(data=data) | s.AudioContent(data=data):
            return len(data)
        case s.EmbeddedResource(resource=s.TextResourceContents(text=data) | s.BlobResourceContents(blob=data)):
            return len(data)
    return 1000


def result_of(answer: "types.CallToolResult", clean: Clean) -> ToolResult:
    """A result; a structured result without content gets its JSON as text."""
    content = blocks_of(answer.content, clean)
    structured = cleaned(answer.structured_content, clean)
    if structured is not None and not any(map(words_of, content)):
        content.append(s.TextContent(text=json.dumps(structured, ensure_ascii=False, indent=1)))
    return ToolResult(content, structured)


def messages_of(
    messages: "Iterable[types.PromptMessage | types.SamplingMessage]", clean: Clean
) -> list[PromptMessage]:
    """The messages of a prompt or of a sampling request, one block each."""
    return [
        PromptMessage(message.role, block)
        for message in messages
        for block in blocks_of(message.content if isinstance(message.content, list) else [message.content], clean)
    ]


def blocks_of(
    blocks: "Iterable[types.ContentBlock | types.SamplingMessageContentBlock]", clean: Clean
) -> list[s.ContentBlock]:
    """The library's blocks as blocks of ours."""
    return [block_of(block, clean) for block in blocks]


def block_of(block: "types.ContentBlock | types.SamplingMessageContentBlock", clean: Clean) -> s.ContentBlock:
    """One block; a kind that this protocol does not have becomes a text that names it."""
    match block.type:
        case "text":
            return s.TextContent(text=clean(block.text), annotations=_annotations(block, clean))
        case "image":
            data, kind = _cleaned_bytes(block.data, clean), clean(block.mime_type)
            return s.ImageContent(data=data, mime_type=kind, annotations=_annotations(block, clean))
        case "audio":
            data, kind = _cleaned_bytes(block.data, clean), clean(block.mime_type)
            return s.AudioContent(data=data, mime_type=kind, annotations=_annotations(block, clean))
        case "resource":
            held = resource_of(block.resource, clean)
            return s.EmbeddedResource(resource=held, annotations=_annotations(block, clean))
        case "resource_link":
            return link_of(block, clean)
        case kind:
            return s.TextContent(text=f"({kind})")


def link_of(resource: "types.Resource", clean: Clean) -> s.ResourceLink:
    """A resource that can be read."""
    return s.ResourceLink(
        name=clean(resource.name),
        uri=clean(str(resource.uri)),
        title=resource.title and clean(resource.title),
        description=resource.description and clean(resource.description),
        mime_type=resource.mime_type and clean(resource.mime_type),
        size=resource.size,
        annotations=_annotations(resource, clean),
    )


def resource_of(
    contents: "types.TextResourceContents | types.BlobResourceContents", clean: Clean
) -> s.EmbeddedResourceResource:
    """The content of a resource."""
    uri, kind = clean(str(contents.uri)), contents.mime_type and clean(contents.mime_type)
    if hasattr(contents, "text"):
        return s.TextResourceContents(uri=uri, text=clean(contents.text), mime_type=kind)
    return s.BlobResourceContents(uri=uri, blob=_cleaned_bytes(contents.blob, clean), mime_type=kind)


def _cleaned_bytes(blob: str, clean: Clean) -> str:
    """Base64 without credentials in its bytes; invalid Base64 stays unchanged."""
    try:
        text = base64.b64decode(blob, validate=True).decode("latin-1")
    except ValueError:
        return clean(blob)
    kept = clean(text)
    return blob if kept == text else base64.b64encode(kept.encode("latin-1")).decode()


def cleaned(value: Any, clean: Clean) -> Any:
    """A JSON value with all its texts cleaned."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(str(name)): cleaned(member, clean) for name, member in value.items()}
        case list():
            return [cleaned(item, clean) for item in value]
    return value


def _annotations(
    block: "types.TextContent | types.ImageContent | types.AudioContent | types.EmbeddedResource | types.Resource",
    clean: Clean,
) -> s.Annotations | None:
    if (given := block.annotations) is None:
        return None
    return s.Annotations(
        audience=given.audience,
        priority=given.priority,
        last_modified=cleaned(getattr(given, "last_modified", None), clean),
    )
