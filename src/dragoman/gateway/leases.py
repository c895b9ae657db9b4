"""Takes the leases of sessions, if necessary from another gateway that does not need them."""

from collections.abc import Awaitable, Callable

from ..errors import Overloaded
from .access.limits import RETRY_AFTER
from .log.engine import Engine, Lease, Unanswered
from .upkeep import LEASE

LET_GO, DONE = b"let go", b"done"  # gateways' request to each other about a session, and the answer

LetGo = Callable[[str], Awaitable[bool]]


class Leases:
    """Takes leases in the name of one gateway, and releases unused ones that another gateway requests."""

    def __init__(self, engine: Engine, let_go: LetGo) -> None:
        self._engine, self._let_go, self._owner = engine, let_go, ""
        self._end: Callable[[], Awaitable[None]] | None = None

    async def begin(self, *, is_new: bool) -> None:
        """Answer other gateways from now on; `is_new`: another process may hold leases in the same state."""
        self._owner = await self._engine.identity(is_new=is_new)
        self._end = await self._engine.answer(self._owner, self._answer)

    async def end(self) -> None:
        """Stop answering other gateways."""
        if self._end:
            await self._end()

    async def take(self, id: str) -> Lease:
        """Take the lease of a session, from another gateway if that does not need it."""
        lease = await self._engine.acquire(id, self._owner, LEASE)
        if lease is None and await self._is_let_go_elsewhere(id):
            lease = await self._engine.acquire(id, self._owner, LEASE)
        if lease is None:
            raise Overloaded("another gateway holds this session at the moment", {"retryAfter": RETRY_AFTER})
        return lease

    async def _is_let_go_elsewhere(self, id: str) -> bool:
        try:
            return await self._engine.call(id, LET_GO) == DONE
        except Unanswered:
            return False

    async def _answer(self, id: str, request: bytes) -> bytes:
        return DONE if request == LET_GO and await self._let_go(id) else b""
