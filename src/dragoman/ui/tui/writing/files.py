"""The files of a directory, for completion: a thread finds them, and every letter narrows them down."""

import asyncio
import os
import time
from collections.abc import Sequence

from msgspec import Struct

from ....host.trees.walking import files
from .matching import matching

MOST = 200_000  # indexed files
FRESH = 20.0  # seconds after which the directory is searched again
SHOWN = 50
AT_ONCE = 2000  # files found between two pauses of the thread


class _Skipped(Struct):
    ignored: int = 0
    nameless: int = 0
    unreadable: set[str] = set()


class FileIndex:
    """The files that `@` offers, without those that Git ignores."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.paths: Sequence[str] = ()
        self._looked_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._before: tuple[str, Sequence[str]] = ("", ())

    async def find(self, wanted: str) -> Sequence[str]:
        """The files whose paths match best."""
        if self._looking is None and time.monotonic() - self._looked_at > FRESH:
            self._looking = asyncio.create_task(self._look(), name="files")
        if not self.paths and self._looking is not None:
            await asyncio.wait([self._looking], timeout=1.0)
        before, narrowed = self._before
        among = narrowed if before and wanted.startswith(before) else self.paths
        found = await asyncio.to_thread(matching, wanted, among, str)
        self._before = (wanted, found) if wanted else ("", ())
        return found[:SHOWN]

    async def _look(self) -> None:
        try:
            self.paths = await asyncio.to_thread(self._walk)
            self._before = ("", ())
        finally:
            self._looked_at, self._looking = time.monotonic(), None

    def _walk(self) -> list[str]:
        found = list[str]()
        start = len(self._directory.rstrip("/")) + 1
        for path in files(self._directory, self._directory, _Skipped()):
            found.append(path[start:])
            if len(found) >= MOST:
                break
            if len(found) % AT_ONCE == 0:
                time.sleep(0.001)  # lets the screen draw
        found.sort(key=lambda path: (path.count("/"), path))
        return found

    def close(self) -> None:
        """Stop the search."""
        if self._looking is not None:
            self._looking.cancel()


def is_there(directory: str, path: str) -> bool:
    """Whether a typed path exists, relative to the directory."""
    full = os.path.join(directory, path)
    return bool(path) and os.path.lexists(full)
