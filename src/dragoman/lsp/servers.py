"""The language servers of one session: which of them serves a file, and their end."""

import asyncio
import os
from collections.abc import Sequence

from ..foundation.programs import is_inside
from ..host.terminals.children import Keeper
from .server import LanguageServer
from .table import installed, known_servers


class LanguageServers:
    """Servers for the files of a workspace; none of them runs before it was allowed."""

    def __init__(self, workspace: str, roots: Sequence[str] = ()) -> None:
        self.workspace = os.path.realpath(workspace)
        self.roots = [self.workspace, *(os.path.realpath(root) for root in roots)]
        self.asking = asyncio.Lock()  # held while the user is asked about a server
        self._keeper = Keeper()
        self._servers: list[LanguageServer] | None = None

    async def look(self) -> "list[LanguageServer]":
        """The servers that are installed; raises LanguageTableError."""
        if self._servers is None:
            found = await asyncio.to_thread(lambda: list(installed(known_servers(), self.workspace)))
            if self._servers is None:
                self._servers = [LanguageServer(server, self.workspace, self._keeper) for server in found]
        return self._servers

    async def serving(self, path: str) -> LanguageServer | None:
        """The server for a file: the first of the table; None where there is none."""
        return next((server for server in await self.look() if server.spec.language(path)), None)

    def is_ours(self, path: str) -> bool:
        """Whether a file lies in the session's directories, followed to where it leads."""
        real = os.path.realpath(path)
        return any(is_inside(real, root) for root in self.roots)

    @property
    def running(self) -> list[LanguageServer]:
        """Those that were allowed to start."""
        return [server for server in self._servers or () if server.is_allowed]

    async def close(self) -> None:
        """End all of them, side by side."""
        await asyncio.gather(*(server.close() for server in self._servers or ()))
        await self._keeper.close()
