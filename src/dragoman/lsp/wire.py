"""The messages of a language server: JSON with a head before it, each bounded."""

import asyncio
import json

from ..errors import Error
from ..foundation.documents import Document, document

MAX_MESSAGE = 32 * 1024 * 1024  # bytes
MAX_HEAD = 8 * 1024


class MalformedMessage(Error):
    """What a server sent is no message; the connection cannot go on."""


def framed(message: Document) -> bytes:
    """A message as it is sent."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


async def read_message(reader: asyncio.StreamReader) -> Document | None:
    """The next message; None at the end.  Raises MalformedMessage."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as exc:
        raise MalformedMessage("its message has no head") from exc
    except asyncio.IncompleteReadError as exc:
        if exc.partial.strip():
            raise MalformedMessage(f"it ended within a message: {exc.partial[:200]!r}") from exc
        return None
    length = _length(head)
    if length > MAX_MESSAGE:
        raise MalformedMessage(f"its message has {length:,} bytes, and the most is {MAX_MESSAGE:,}")
    try:
        return document(json.loads(await reader.readexactly(length)))
    except asyncio.IncompleteReadError:
        return None
    except (ValueError, TypeError, RecursionError) as exc:
        raise MalformedMessage(f"its message is no JSON object: {exc}") from exc


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            return int(value)
    raise MalformedMessage(f"the head of its message has no length: {head[:200]!r}")
