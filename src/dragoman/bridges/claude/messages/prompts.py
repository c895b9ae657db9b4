"""Turn a prompt into the content of a user message for Claude."""

import base64
import re
from collections.abc import Sequence

from .... import schema as s
from ....errors import InvalidParams
from ....foundation.documents import Document

Block = Document

_MCP_COMMAND = re.compile(r"^/mcp:([^:\s]+):(\S+)(?:\s+(.*))?$", re.DOTALL)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXTS = ("application/json", "application/xml", "application/javascript", "application/x-sh", "application/toml")


def content_of(prompt: Sequence[s.ContentBlock]) -> list[Block]:
    """The blocks of a prompt: mentions in their places, embedded content at the end."""
    said: list[Block] = []
    context: list[Block] = []
    is_first = True
    for block in prompt:
        match block:
            case s.TextContent(text=words):
                said.append(text(_command(words) if is_first else words))
                is_first = False
            case s.ResourceLink(uri=uri):
                said.append(text(link(uri)))
            case s.EmbeddedResource(resource=s.TextResourceContents(uri=uri, text=words)):
                said.append(text(link(uri)))
                context.append(_context(uri, words))
            case s.EmbeddedResource(resource=s.BlobResourceContents() as blob):
                said.append(text(link(blob.uri)))
                found = _blob(blob)
                (context if found["type"] == "text" else said).append(found)
            case s.ImageContent(data=data, mime_type=kind) if data:
                said.append(_image(data, kind))
            case s.ImageContent(uri=str(uri)) if uri.startswith(("http://", "https://")):
                said.append({"type": "image", "source": {"type": "url", "url": uri}})
            case _:
                raise InvalidParams("Claude accepts text, images, links and embedded files only")
    return [*said, *context]


def text(words: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": words}


def link(uri: str) -> str:
    """A mention: files and resources of the editor become links, other addresses are not changed."""
    if not uri.startswith(("file://", "zed://")):
        return uri
    name = uri.partition("://")[2].rsplit("/", 1)[-1] or uri
    return f"[@{name}]({uri})"


def _command(words: str) -> str:
    """A slash command of an MCP server in Claude's form."""
    if not (found := _MCP_COMMAND.match(words)):
        return words
    server, name, rest = found.groups()
    return f"/{server}:{name} (MCP){' ' + rest if rest else ''}"


def _context(uri: str, words: str) -> Block:
    return text(f'\n<context ref="{uri}">\n{words}\n</context>')


def _image(data: str, kind: str) -> Block:
    return {"type": "image", "source": {"type": "base64", "data": data, "media_type": kind}}


def _blob(blob: s.BlobResourceContents) -> Block:
    kind = (blob.mime_type or "").partition(";")[0].strip().lower()
    if kind in IMAGES:
        return _image(blob.blob, kind)
    if kind == "application/pdf":
        source = {"type": "base64", "data": blob.blob, "media_type": kind}
        return {"type": "document", "source": source}
    if kind.startswith("text/") or kind in TEXTS:
        try:
            return _context(blob.uri, base64.b64decode(blob.blob, validate=True).decode())
        except ValueError:
            raise InvalidParams(f"{blob.uri} is not text in the encoding of its media type") from None
    raise InvalidParams(
        f"Claude cannot read {blob.uri}: it takes images, PDF files and texts, not {kind or 'this'}"
    )
