"""A language server's process: a child of the host's keeper, so nothing of it outlives us, with bounded output."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from contextlib import ExitStack

from ..errors import Error
from ..foundation.owning import Cleanup, finish, take
from ..foundation.programs import search_path
from ..host.terminals.children import Child, CommandSpec, Keeper, StartError
from ..host.terminals.environment import environment
from .wire import MAX_HEAD

STDERR_KEPT = 4 * 1024  # bytes of its last words
PIECE = 64 * 1024
LEAVE = 2.0  # seconds it has to go by itself once its stdin is closed


class LanguageServerError(Error):
    """A language server cannot be used, or failed; the words say which one and why."""


class LanguageProcess:
    """Start it with `start`; `close` ends it and all that it has started."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=MAX_HEAD)
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._stderr = bytearray()
        self._stderr_fd = -1
        self._reading: asyncio.BaseTransport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._child: Child | None = None
        self.close = Cleanup(self._close)

    @classmethod
    async def start(cls, keeper: Keeper, argv: Sequence[str], cwd: str) -> "LanguageProcess":
        """Start a server in a directory; raises LanguageServerError."""
        return await take(cls()._started(keeper, argv, cwd), lambda process: process.close())

    async def _started(self, keeper: Keeper, argv: Sequence[str], cwd: str) -> "LanguageProcess":
        given = environment({"PATH": search_path(None, cwd)}.items())
        order = CommandSpec(argv=list(argv), env=list(given.items()))
        loop = asyncio.get_running_loop()
        try:
            with ExitStack() as theirs:
                fds: list[int] = []
                stdin, writing = os.pipe()
                theirs.callback(os.close, stdin)
                protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
                transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(writing, "wb", 0))
                self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
                reading, stdout = os.pipe()
                theirs.callback(os.close, stdout)
                listening = lambda: asyncio.StreamReaderProtocol(self.reader)  # noqa: E731
                self._reading, _ = await loop.connect_read_pipe(listening, os.fdopen(reading, "rb", 0))
                self._stderr_fd, stderr = os.pipe()
                theirs.callback(os.close, stderr)
                os.set_blocking(self._stderr_fd, False)
                loop.add_reader(self._stderr_fd, self._hear_stderr)
                directory = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                theirs.callback(os.close, directory)
                fds = [stdin, stdout, stderr, directory]
                self._child = await keeper.start(order, fds, self)
        except BaseException as exc:
            self.ended.set()
            await finish(self.close())
            if isinstance(exc, StartError | OSError):
                raise LanguageServerError(f"{os.path.basename(argv[0])} could not be started: {exc}") from exc
            raise
        return self

    def write(self, data: bytes) -> int:
        """Send bytes; gives how many wait to be taken."""
        if self._writer is None or self._writer.transport.is_closing():
            return 0
        self._writer.write(data)
        return self._writer.transport.get_write_buffer_size()

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr, as one line."""
        return " ".join(self._stderr.decode(errors="replace").split())[-500:]

    @property
    def pid(self) -> int:
        return self._child.pid if self._child else 0

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        if self._child:
            self._child.end()

    async def _close(self) -> None:
        if self._writer:
            self._writer.close()
        if self._child:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE):
                    await self.ended.wait()
            self._child.end()
            await self._child.gone.wait()
        if self._writer:
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        if self._reading:
            self._reading.close()
        self._close_stderr()

    def _hear_stderr(self) -> None:
        try:
            piece = os.read(self._stderr_fd, PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._close_stderr()
        self._stderr += piece
        del self._stderr[:-STDERR_KEPT]

    def _close_stderr(self) -> None:
        if self._stderr_fd >= 0:
            asyncio.get_running_loop().remove_reader(self._stderr_fd)
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    # As the keeper tells of it

    def exited(self, code: int) -> None:
        self.code = code
        self.ended.set()

    def gone(self, left: Sequence[int]) -> None:
        self.ended.set()
