"""Run programs for a review: as argv lists, with a time limit and bounded output, and end all their processes."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct

from ...errors import Error
from ...foundation.programs import beside_python, find_program, search_path
from ...host.terminals.children import Child, CommandSpec, Keeper, StartError
from ...host.terminals.environment import environment

TIMEOUT = 120.0  # seconds
MOST_OUTPUT = 32 * 1024 * 1024  # bytes kept of each stream; the rest is read and dropped
PIECE = 64 * 1024


class CommandError(Error):
    """A program could not be run to its end; the text says why, in one line."""


class ProgramResult(Struct, frozen=True):
    """A program's exit and its output."""

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
    ) -> ProgramResult:
        """Run a program in a directory; raises CommandError when it cannot be started or takes too long."""
        name = os.path.basename(argv[0])
        given = {"PATH": search_path(None, cwd), **(env or {})}
        spec = CommandSpec(argv=list(argv), env=list(environment(given.items()).items()))
        run = _Run(self._keeper, spec, cwd, stdin)
        try:
            async with asyncio.timeout(timeout):
                return await run.result()
        except TimeoutError:
            raise CommandError(f"{name} took longer than {timeout:g} s and was ended") from None
        except (StartError, OSError) as exc:
            raise CommandError(f"{name} could not be run: {exc}") from exc
        finally:
            await asyncio.shield(run.close())

    async def close(self) -> None:
        await self._keeper.close()


class _Run:
    """One program, as the keeper reports about it."""

    def __init__(self, keeper: Keeper, spec: CommandSpec, cwd: str, stdin: bytes) -> None:
        self._stdout, self._stderr = _Stream(), _Stream()
        self._code: int | None = None
        self._ended = asyncio.Event()
        # A task of its own: a caller that gives up during the start must still end the program.
        self._starting = asyncio.ensure_future(self._start(keeper, spec, cwd, stdin))

    async def _start(self, keeper: Keeper, spec: CommandSpec, cwd: str, stdin: bytes) -> Child:
        with ExitStack() as opened:
            # a file, since unlike a pipe it cannot become full
            given = opened.enter_context(tempfile.TemporaryFile())
            given.write(stdin)
            given.seek(0)
            theirs = [given.fileno()]
            for kept in (self._stdout, self._stderr):
                reading, writing = os.pipe()
                opened.callback(os.close, writing)
                kept.open(reading)
                theirs.append(writing)
            directory = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, directory)
            return await keeper.start(spec, [*theirs, directory], self)

    async def result(self) -> ProgramResult:
        child = await asyncio.shield(self._starting)
        await self._ended.wait()
        child.end()  # its background processes would keep the pipes open
        await self._stdout.ended.wait()
        await self._stderr.ended.wait()
        return ProgramResult(self._code or 0, bytes(self._stdout.data), bytes(self._stderr.data))

    async def close(self) -> None:
        """End the program and all its processes; none is left when this returns."""
        try:
            child = await self._starting
            child.end()
            await child.gone.wait()
        except (StartError, OSError):  # there is nothing to end
            pass
        finally:
            self._stdout.close()
            self._stderr.close()

    def exited(self, code: int) -> None:
        self._code = code
        self._ended.set()

    def gone(self, left: Sequence[int]) -> None:
        self._ended.set()


class _Stream:
    """Our end of a pipe, which is read to the end and kept up to a limit."""

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


def program_named(name: str, cwd: str) -> str | None:
    """The path of a program: beside our own interpreter or on the PATH, but never in the project under review."""
    return beside_python(name) or find_program(name, cwd)
