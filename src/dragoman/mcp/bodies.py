"""Answers of MCP servers over HTTP, which the library reads whole: no more of them than a message may have."""

from collections.abc import AsyncIterator

import httpx2

from .answers import MAX_MESSAGE


class BoundedBody(httpx2.AsyncByteStream):
    """What a response says, up to the limit."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._whole = response.stream
        self._is_compressed = response.headers.get("content-encoding", "identity") != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:  # its true length shows too late
            raise httpx2.StreamError("it is compressed, which nobody asked for")
        size = 0
        async for part in self._whole:
            size += len(part)
            if size > MAX_MESSAGE:
                raise httpx2.StreamError(f"it is too long: the most is {MAX_MESSAGE:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._whole.aclose()


async def bound(response: httpx2.Response) -> None:
    """Bound a response before it is read; event streams are bounded by the library, event by event."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response)
