"""Answers of MCP servers over HTTP, which the library reads whole: no more of them than a message may have.

The library takes a body that breaks off for the end of the connection, and waits for an answer that came under
another id.  Here both are errors of the one request that the body was to answer.
"""

from collections.abc import AsyncIterator

import httpx2

from ...envelope import outline
from .answers import MAX_MESSAGE, readable_id


class BoundedBody(httpx2.AsyncByteStream):
    """What a response says, up to the limit."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._whole = response.stream
        self._is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        is_answer = response.is_success and response.headers.get("content-type", "").startswith("application/json")
        self._asked = outline(response.request.content).get("id") if is_answer else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:  # its true length shows too late
            raise httpx2.StreamError("it is compressed, which nobody asked for")
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self._whole:
                size += len(part)
                if size > MAX_MESSAGE:
                    raise httpx2.StreamError(f"it is too long: the most is {MAX_MESSAGE:,} bytes")
                parts.append(part)
                yield part
        except httpx2.TransportError as exc:
            raise httpx2.StreamError(f"it broke off: {exc}") from exc
        if self._asked is not None:
            self._check(b"".join(parts))

    def _check(self, body: bytes) -> None:
        if not body.lstrip().startswith(b"{"):
            raise httpx2.StreamError("it is not one message")
        answered = readable_id(outline(body))
        if answered is not None and str(answered) != str(self._asked):
            raise httpx2.StreamError(f"it answers another request, with the id {str(answered)[:40]!r}")

    async def aclose(self) -> None:
        await self._whole.aclose()


async def bound(response: httpx2.Response) -> None:
    """Bound a response before it is read; event streams are bounded by the library, event by event."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response)
