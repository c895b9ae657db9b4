"""Where the agent works: files and commands of one session, through the client where it lends them, else here.

Everything with an effect passes the gate first, and every edit leaves what was there before in the checkpoints.
"""

import asyncio
import contextlib
import functools
import hashlib
import itertools
import os
import re
import shlex
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from msgspec import Struct

from .. import schema as s
from ..errors import ConnectionClosed, Error, ResourceNotFound, RpcError
from ..host.files import Workspace
from ..host.operations import Execute, FileRead, FileWrite
from ..host.terminals import Terminals, execution
from ..roles import offered
from ..runs import TerminalRun, ToolRun
from ..turn import AgentSession, Turn
from .checkpoints import Checkpoints
from .gate import Denied, Gate

MAX_FILE = 8 * 1024 * 1024  # bytes of a file that is read here
MAX_OUTPUT = 1024 * 1024  # bytes of a command's output that are kept
MAX_BESIDE = 8  # commands in the background
_BUILTINS = (
    *(".", ":", "alias", "cd", "command", "eval", "exec"),
    *("exit", "export", "read", "set", "source", "trap"),
)
_PLAIN = re.compile(r"[\w./=:@,+%^-]+(?: +[\w./=:@,+%^-]+)*")  # words that mean the same to every shell and to none


class Unreadable(Error):
    """A file cannot be read, or is not text; the words are for the model."""


class Ended(Struct, frozen=True):
    """How a command ended and what it printed; neither code nor signal means that it was still running."""

    output: str
    code: int | None = None
    signal: str | None = None
    truncated: bool = False
    timed_out: bool = False
    seen: bool = False  # the user sees its output already, in a terminal


class NotRunning(Error):
    """There is no such command in the background; the words are for the model."""


class Running(Struct, frozen=True):
    """A command that runs beside the conversation: how to read what it printed, and how to let go of it."""

    read: Callable[[], Awaitable[s.TerminalOutputResponse]]
    release: Callable[[], Awaitable[None]]


class Workplace:
    def __init__(self, session: AgentSession, gate: Gate, checkpoints: Checkpoints) -> None:
        self.session = session
        self.gate = gate
        self.checkpoints = checkpoints
        self.seen: dict[str, str] = {}  # files the model has read, with the digest of what it read
        self.beside: dict[str, Running] = {}  # commands in the background, by the ids the model knows
        self._files: Workspace | None = None
        self._terminals: Terminals | None = None
        self._spill: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)

    async def close(self) -> None:
        """Let go of directories, commands and spilled output."""
        for id in list(self.beside):
            with contextlib.suppress(ConnectionClosed):
                await self.stop(id)
        if self._terminals:
            await self._terminals.close()
        if self._files:
            self._files.close()
        if self._spill:
            self._spill.cleanup()

    def lends(self, capability: str) -> bool:
        return offered(self.session.client.offers, capability)

    def shown(self, path: str) -> str:
        """A path as titles have it: relative to the session's directory when it is in there."""
        relative = os.path.relpath(path, self.session.cwd)
        return path if relative.startswith("..") else relative

    # Files

    async def read(self, turn: Turn, call: ToolRun, path: str) -> str:
        """The text of a file, unsaved changes included; raises Unreadable."""
        await self.gate.admit(turn, call, FileRead(path=path))
        text = await self.text(turn, path)
        if text is None:
            raise Unreadable(f"There is no file {self.shown(path)}.")
        self.seen[path] = digest(text)
        return text

    async def text(self, turn: Turn, path: str) -> str | None:
        """The text of a file that may be read; None when there is none."""
        if not self.lends("fs.read_text_file") or self._is_spilled(path):
            return await asyncio.to_thread(_read_here, path)
        try:
            return await turn.read(path)
        except ResourceNotFound:
            return None
        except RpcError as exc:
            # Many clients have no error of its own for what is not there; where we see the same disk, we know.
            if os.path.isdir(self.session.cwd) and not os.path.lexists(path):
                return None
            raise Unreadable(f"{self.shown(path)} cannot be read: {exc.message}") from exc

    async def bytes_of(self, turn: Turn, call: ToolRun, path: str) -> bytes:
        """The bytes of a file on disk, for pictures and the like."""
        await self.gate.admit(turn, call, FileRead(path=path))
        return await asyncio.to_thread(_bytes_here, path)

    async def write(self, turn: Turn, call: ToolRun, path: str, old: str | None, new: str) -> None:
        """Replace a file after its change was shown and allowed; `old` is what it was when the change was made."""
        self._must_be_writable(path)
        await call.diff(path, old, new)
        operation = FileWrite(path=path, digest=digest(new), creates=old is None)
        await self.gate.admit(turn, call, operation)
        await call.start()
        if await self.text(turn, path) != old:
            raise Unreadable(f"{self.shown(path)} was changed by someone else meanwhile; read it again.")
        self.gate.must_be_able_to_change()  # the user may have changed the mode at this very moment
        self.checkpoints.keep(path, old)
        await self.put(turn, path, new)
        self.checkpoints.wrote(path, new)
        self.seen[path] = digest(new)

    async def put(self, turn: Turn, path: str, text: str) -> None:
        """Write without asking: only after the gate, or when the user undoes what was written."""
        if self.lends("fs.write_text_file"):
            await turn.write(path, text)
            return
        if self._files is None:
            self._files = Workspace(self.session.cwd, self.session.additional_directories)
        request = s.WriteTextFileRequest(session_id=self.session.id, path=path, content=text)
        await self._files.write_text_file(request)

    def _must_be_writable(self, path: str) -> None:
        if not self.lends("fs.write_text_file") and not self.gate.is_inside(path):
            raise Denied(f"{path} lies outside the session's directories and cannot be written.")

    # Commands

    def command(self, line: str, cwd: str | None = None) -> Execute:
        """What a line would run: plain words as they are, anything else in a shell."""
        place = self.session.path(cwd or ".")
        program, *args = shlex.split(line) if _PLAIN.fullmatch(line) else [""]
        if program and "=" not in program and program not in _BUILTINS:
            return execution(program, args, cwd=place)
        return Execute(argv=("/bin/sh", "-c", line), cwd=place, shell=True)

    async def run(self, turn: Turn, call: ToolRun, operation: Execute, timeout: float) -> Ended:
        """Run a command to its end, shown live where the client has terminals."""
        await self.gate.admit(turn, call, operation)
        await call.start()
        if not self.lends("terminal"):
            return await self._run_here(operation, timeout)
        program, *args = operation.argv
        async with turn.terminal(program, *args, cwd=operation.cwd, output_byte_limit=MAX_OUTPUT) as terminal:
            await call.terminal(terminal)
            return await _ended(terminal, timeout)

    async def start(self, turn: Turn, call: ToolRun, operation: Execute) -> str:
        """Start a command and leave it running beside the conversation; gives its id."""
        if len(self.beside) >= MAX_BESIDE:
            raise Denied(f"{MAX_BESIDE} commands run in the background already; stop one first.")
        await self.gate.admit(turn, call, operation)
        await call.start()
        if self.lends("terminal"):
            program, *args = operation.argv
            held = AsyncExitStack()
            terminal = await held.enter_async_context(
                turn.terminal(program, *args, cwd=operation.cwd, output_byte_limit=MAX_OUTPUT)
            )
            await call.terminal(terminal)
            running = Running(terminal.output, held.aclose)
        else:
            running = await self._start_here(operation)
        id = f"command-{next(self._numbers)}"
        self.beside[id] = running
        return id

    def running(self, id: str) -> Running:
        """A command in the background; raises NotRunning."""
        if id not in self.beside:
            raise NotRunning(f"No command runs as {id!r}.")
        return self.beside[id]

    async def stop(self, id: str) -> None:
        """End a command in the background, should it still run."""
        running = self.running(id)
        del self.beside[id]
        await running.release()

    async def _start_here(self, operation: Execute) -> Running:
        terminals = self._own_terminals()
        terminal = await terminals.create(self.session.id, operation, output_byte_limit=MAX_OUTPUT)

        async def read() -> s.TerminalOutputResponse:
            return terminal.output()

        return Running(read, functools.partial(terminals.release, self.session.id, terminal.id))

    def _own_terminals(self) -> Terminals:
        if self._terminals is None:
            self._terminals = Terminals()
        return self._terminals

    async def _run_here(self, operation: Execute, timeout: float) -> Ended:
        terminals = self._own_terminals()
        terminal = await terminals.create(self.session.id, operation, output_byte_limit=MAX_OUTPUT)
        try:
            status = await terminal.wait(timeout)
            if status is None:
                await terminal.kill(force=True)
                status = await terminal.wait()
                printed = terminal.output()
                return Ended(printed.output, truncated=printed.truncated, timed_out=True)
            printed = terminal.output()
            return Ended(printed.output, status.exit_code, status.signal, printed.truncated)
        finally:
            await asyncio.shield(terminals.release(self.session.id, terminal.id))

    # Output too long to be shown to the model

    def spill(self, text: str, name: str) -> str:
        """Keep a text in a file of the session's own; gives its path."""
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(prefix="dragoman-")
            self.gate.roots.append(os.path.realpath(self._spill.name))
        path = os.path.join(os.path.realpath(self._spill.name), f"{name}.txt")
        with open(path, "w") as file:
            file.write(text)
        return path

    def _is_spilled(self, path: str) -> bool:
        return self._spill is not None and path.startswith(os.path.realpath(self._spill.name) + os.sep)


async def _ended(terminal: TerminalRun, timeout: float) -> Ended:
    try:
        async with asyncio.timeout(timeout):
            status = await terminal.wait()
    except TimeoutError:
        await terminal.kill()
        printed = await terminal.output()
        return Ended(printed.output, truncated=printed.truncated, timed_out=True, seen=True)
    printed = await terminal.output()
    return Ended(printed.output, status.exit_code, status.signal, printed.truncated, seen=True)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_here(path: str) -> str | None:
    if not os.path.lexists(path):
        return None
    try:
        return _bytes_here(path).decode()
    except UnicodeDecodeError:
        raise Unreadable(f"{os.path.basename(path)} is not a text file.") from None


def _bytes_here(path: str) -> bytes:
    if not os.path.isfile(path):  # also keeps pipes and devices out, which would never end
        raise Unreadable(f"{path} is not a file." if os.path.exists(path) else f"There is no file {path}.")
    try:
        if os.path.getsize(path) > MAX_FILE:
            raise Unreadable(
                f"{os.path.basename(path)} is larger than {MAX_FILE // 2**20} MiB; search in it instead."
            )
        with open(path, "rb") as file:
            return file.read(MAX_FILE)
    except OSError as exc:
        raise Unreadable(f"{path} cannot be read: {exc.strerror}.") from exc
