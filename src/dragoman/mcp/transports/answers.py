"""Answers that cannot be read: they settle their requests all the same, as far as they show whose they are."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...envelope import outline

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

Streams: TypeAlias = tuple[Any, Any]  # what the library reads from, and what it writes to
UNREADABLE = -32700
MAX_MESSAGE = 32 * 1024 * 1024  # bytes of one message of a server


class OpenRequests:
    """The requests that a server has not answered, and whether it answered anything else."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._stray: int | str | None = None

    def asked(self, message: object) -> None:
        """A message of ours: note the id of a request."""
        if (id := getattr(message, "id", None)) is not None and hasattr(message, "method"):
            self._ids.add(str(id))

    def heard(self, message: object) -> None:
        """A message of the server's: note what it answers."""
        if (id := getattr(message, "id", None)) is None or hasattr(message, "method"):
            return
        if str(id) in self._ids:
            self._ids.discard(str(id))
        else:
            self._stray = id

    def told(self) -> str:
        """What is to be said of an answer to nothing that was asked, once."""
        stray, self._stray = self._stray, None
        return "" if stray is None else f"; the server answered what nobody asked, with the id {str(stray)[:40]!r}"


@contextlib.asynccontextmanager
async def settled(incoming: Any, ended: Callable[[], None]) -> AsyncIterator[Any]:
    """A server's messages as the library reads them, with an error for each answer that is none."""
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
    """The failure of the request that something unreadable answers; the exception itself when it names none."""
    id = _answered(unread)
    return unread if id is None else failure(id, "the server's answer cannot be read")


def failure(id: int | str, why: str) -> "SessionMessage":
    """What the library takes for the answer to a request that failed."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=UNREADABLE, message=why)))


def _answered(unread: Exception) -> int | str | None:
    """Which request something unreadable answers, if it is an answer."""
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
    """The id of an answer, as far as its members show it."""
    id = None if "method" in members else members.get("id")
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None
