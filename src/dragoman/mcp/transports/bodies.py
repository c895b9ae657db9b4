"""Limits MCP servers' answers over HTTP, which the library reads completely, to the size of a message.

The library treats a body that breaks off as the end of the connection, and keeps waiting after an answer with a
wrong id.  Here, both fail only the request that the body should answer.
"""

from collections.abc import AsyncIterator

import httpx2

from ...envelope import outline
from .answers import MAX_MESSAGE, readable_id


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, up to the limit."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._whole = response.stream
        self._is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        is_answer = response.is_success and response.headers.get("content-type", "").startswith("application/json")
        self._asked = outline(response.request.content).get("id") if is_answer else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:  # its real length is known too late
            raise httpx2.StreamError("it is compressed, which was not requested")
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
    """Limit a response before it is read; the library limits event streams event by event."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response)
