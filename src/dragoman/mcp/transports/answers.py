"""Unreadable answers: they fail their requests, if they show an id."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...envelope import outline

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

Streams: TypeAlias = tuple[Any, Any]  # the streams that the library reads from and writes to
UNREADABLE = -32700
MAX_MESSAGE = 32 * 1024 * 1024  # bytes of one message of a server


class OpenRequests:
    """A server's unanswered requests, and whether it has sent other answers."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._stray: int | str | None = None

    def asked(self, message: object) -> None:
        """Note the id of a request of ours."""
        if (id := getattr(message, "id", None)) is not None and hasattr(message, "method"):
            self._ids.add(str(id))

    def heard(self, message: object) -> None:
        """Note which request a server's message answers."""
        if (id := getattr(message, "id", None)) is None or hasattr(message, "method"):
            return
        if str(id) in self._ids:
            self._ids.discard(str(id))
        else:
            self._stray = id

    def told(self) -> str:
        """A remark about an answer without a request, once."""
        stray, self._stray = self._stray, None
        return "" if stray is None else f"; the server answered what nobody asked, with the id {str(stray)[:40]!r}"


@contextlib.asynccontextmanager
async def settled(incoming: Any, ended: Callable[[], None]) -> AsyncIterator[Any]:
    """A server's messages for the library, with an error in place of each unreadable answer."""
    import anyio

    sending, receiving = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with sending:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for item in incoming:
                    await sending.send(_outcome(item) if isinstance(item, Exception) else item)
        ended()

    async with receiving, anyio.create_task_group() as group:
        group.start_soon(pass_on)
        yield receiving
        group.cancel_scope.cancel()


def _outcome(unread: Exception) -> "Exception | SessionMessage":
    """The failure of the request that an unreadable message answers; the exception itself if it names none."""
    id = _answered(unread)
    return unread if id is None else failure(id, "the server's answer cannot be read")


def failure(id: int | str, why: str) -> "SessionMessage":
    """An error response for the library, for a failed request."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=UNREADABLE, message=why)))


def _answered(unread: Exception) -> int | str | None:
    """The id of the request that an unreadable message answers, if it is an answer."""
    from pydantic import ValidationError

    if not isinstance(unread, ValidationError):
        return None
    for error in unread.errors(include_url=False, include_context=False):
        given = error["input"]
        members = outline(given.encode(errors="replace")) if isinstance(given, str) else given
        if isinstance(members, dict) and (id := readable_id(members)) is not None:
            return id
    return None


def readable_id(members: Mapping[str, object]) -> int | str | None:
    """The id of an answer, if its members show it."""
    id = None if "method" in members else members.get("id")
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None
