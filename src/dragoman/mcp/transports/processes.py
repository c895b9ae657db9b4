"""An MCP server as a process of ours, behind the library's two streams.

The library's own transport keeps an endless line and all of stderr.  Here, both are limited: a line that is too
long is dropped as it arrives, and the request it answers fails.
"""

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...envelope import outline
from ...framing import Oversize
from ...transports.process import ProcessTransport, spawn
from .answers import MAX_MESSAGE, OpenRequests, Streams, failure, readable_id

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some runtimes write it first


class Incoming:
    """Received messages that were not taken yet, in order."""

    def __init__(self, wire: ProcessTransport) -> None:
        import anyio

        self._wire = wire
        self._waiting: deque[bytes | Oversize] = deque()
        self._has_ended = False
        self._news = anyio.Event()
        wire.listen(self._hear, self._end)

    def _hear(self, frames: Sequence[bytes | Oversize]) -> None:
        self._waiting += frames
        self._wire.hold()  # until they are taken, because each may be large
        self._news.set()

    def _end(self) -> None:
        self._has_ended = True
        self._news.set()

    async def frames(self) -> AsyncGenerator[bytes | Oversize]:
        import anyio

        while self._waiting or not self._has_ended:
            if self._waiting:
                yield self._waiting.popleft()
                continue
            self._news = anyio.Event()
            self._wire.resume()
            await self._news.wait()


@contextlib.asynccontextmanager
async def process_streams(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    *,
    ended: Callable[[], None],
    last_words: list[str],
    requests: OpenRequests,
) -> AsyncIterator[Streams]:
    """Start a server; `ended` is called when it has ended, and the end of its stderr is added to `last_words`."""
    import anyio
    from mcp.client.stdio import get_default_environment

    wire = await spawn(argv, cwd=cwd, env={**get_default_environment(), **env}, limit=MAX_MESSAGE)
    to_library, receiving = anyio.create_memory_object_stream[Any](0)
    sending, from_library = anyio.create_memory_object_stream[Any](0)

    async def hear() -> None:
        async with to_library:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with contextlib.aclosing(Incoming(wire).frames()) as frames:
                    async for frame in frames:
                        if (read := _read(frame)) is not None:
                            requests.heard(read.message)
                            await to_library.send(read)
        ended()

    async def say() -> None:
        async for item in from_library:
            requests.asked(item.message)
            wire.send([item.message.model_dump_json(by_alias=True, exclude_unset=True).encode(errors="replace")])
            await wire.drain()

    try:
        async with to_library, receiving, sending, from_library, anyio.create_task_group() as group:
            group.start_soon(hear)
            group.start_soon(say)
            yield receiving, sending
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await wire.close()
        last_words.append(wire.stderr)


def _read(frame: bytes | Oversize) -> "SessionMessage | None":
    """A message of a server, or the failure of the request that an unreadable line answers; None otherwise."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if isinstance(frame, Oversize):
        why = f"the server's answer is too long: {frame.size:,} bytes, and the most is {MAX_MESSAGE:,}"
    else:
        with contextlib.suppress(ValueError):
            text = frame.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        why = "the server's answer cannot be read"
    id = readable_id(outline(frame))
    return None if id is None else failure(id, why)
