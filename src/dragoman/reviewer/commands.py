"""Programs run for a review: argv lists, a time limit, bounded output, and nothing left of them afterwards."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct

from ..host.terminals.children import Child, Keeper, Order, StartError
from ..host.terminals.environment import environment

TIMEOUT = 120.0  # seconds
MOST_OUTPUT = 32 * 1024 * 1024  # bytes kept of each stream; what follows is read and dropped
PIECE = 64 * 1024


class CommandError(Exception):
    """A program could not be run to its end; the text says why, in one line."""


class Result(Struct, frozen=True):
    """How a program ended and what it printed."""

    code: int
    stdout: bytes
    stderr: bytes


class Commands:
    """Runs programs; closing it ends those that still run."""

    def __init__(self) -> None:
        self._keeper = Keeper()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> Result:
        """Run a program in a directory; raises CommandError when it cannot be started or takes too long."""
        run, name = _Run(), os.path.basename(argv[0])
        order = Order(argv=list(argv), env=list(environment((env or {}).items()).items()))
        try:
            async with asyncio.timeout(timeout):
                with ExitStack() as opened:
                    await run.start(self._keeper, order, _streams(cwd, stdin, run, opened))
                return await run.result()
        except TimeoutError:
            raise CommandError(f"{name} took longer than {timeout:g} s and was ended") from None
        except (StartError, OSError) as exc:
            raise CommandError(f"{name} could not be run: {exc}") from exc
        finally:
            await run.close()

    async def close(self) -> None:
        await self._keeper.close()


def _streams(cwd: str, stdin: bytes, run: "_Run", opened: ExitStack) -> list[int]:
    """The program's ends of its streams, and its directory; ours to close once it has copies."""
    given = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (a file, for it cannot fill up as a pipe does)
    given.write(stdin)
    given.seek(0)
    theirs = [given.fileno()]
    for kept in (run.stdout, run.stderr):
        reading, writing = os.pipe()
        opened.callback(os.close, writing)
        kept.open(reading)
        theirs.append(writing)
    directory = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened.callback(os.close, directory)
    return [*theirs, directory]


class _Run:
    """One program, as its keeper tells of it."""

    def __init__(self) -> None:
        self.stdout, self.stderr = _Stream(), _Stream()
        self._code: int | None = None
        self._ended = asyncio.Event()
        self._child: Child | None = None

    async def start(self, keeper: Keeper, order: Order, streams: Sequence[int]) -> None:
        self._child = await keeper.start(order, streams, self)

    async def result(self) -> Result:
        await self._ended.wait()
        await self._end_child()  # what it left in the background would hold the pipes open
        await self.stdout.ended.wait()
        await self.stderr.ended.wait()
        return Result(self._code or 0, bytes(self.stdout.data), bytes(self.stderr.data))

    async def close(self) -> None:
        try:
            await asyncio.shield(self._end_child())
        finally:
            self.stdout.close()
            self.stderr.close()

    async def _end_child(self) -> None:
        if self._child:
            self._child.end()
            await self._child.gone.wait()

    def exited(self, code: int) -> None:
        self._code = code
        self._ended.set()

    def gone(self, left: Sequence[int]) -> None:
        self._ended.set()


class _Stream:
    """Our end of a pipe, read as far as is kept."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = asyncio.Event()
        self._fd = -1

    def open(self, fd: int) -> None:
        self._fd = fd
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            piece = os.read(self._fd, PIECE)
        except BlockingIOError:
            return
        if not piece:
            self.close()
        elif len(self.data) < MOST_OUTPUT:
            self.data += piece

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        self.ended.set()
