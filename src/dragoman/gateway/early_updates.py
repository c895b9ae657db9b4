"""Updates of sessions that are not known yet, which an agent may send before it answers with the id."""

import logging
from typing import Generic, TypeVar

log = logging.getLogger("dragoman")

T = TypeVar("T")

MAX_EARLY = 4 * 1024 * 1024  # bytes kept of all such sessions
OVERHEAD = 512  # bytes that an update takes besides its own


class EarlyUpdates(Generic[T]):
    """Keeps updates, by session, until the session is known; the oldest session makes room for the others."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[int, T]]] = {}
        self._size = 0

    def keep(self, session: str, update: T, size: int) -> None:
        """Keep an update of this size, if there is room."""
        size += OVERHEAD
        while self._size + size > MAX_EARLY and (oldest := next((id for id in self._kept if id != session), None)):
            self.take(oldest)
        if self._size + size > MAX_EARLY:
            log.warning("the session %s is not open, and more was told of it than is kept", session)
            return
        self._kept.setdefault(session, []).append((size, update))
        self._size += size

    def take(self, session: str) -> list[T]:
        """Take the updates of a session, in order."""
        kept = self._kept.pop(session, [])
        self._size -= sum(size for size, _ in kept)
        return [update for _, update in kept]

    def clear(self) -> None:
        """Drop all kept updates."""
        self._kept, self._size = {}, 0
