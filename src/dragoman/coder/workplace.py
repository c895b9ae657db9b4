"""Files and commands of one session: through the client if it lends them, else on this machine.

Permissions are checked before every effect, and every edit is in the undo journal before it is made.
"""

import asyncio
import contextlib
import functools
import itertools
import os
import re
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct

from .. import schema as s
from ..agent.runs import TerminalRun, ToolRun
from ..agent.turn import AgentSession, Turn
from ..errors import ConnectionClosed, Error, RpcError
from ..host.operations import Execute, FileDelete, FileRead, FileWrite
from ..host.terminals import Terminals, execution
from ..lsp.servers import LanguageServers
from .files.project_files import FileVersions, ProjectFiles, UnreadableFile, bytes_here, digest, read_here
from .files.undo_journal import UndoJournal
from .permissions import CoderPermissions, Denied

MAX_OUTPUT = 1024 * 1024  # bytes of a command's output that are kept
MAX_BESIDE = 8  # commands in the background
MAX_SEARCHES = 4  # at once
_BUILTINS = (
    *(".", ":", "alias", "cd", "command", "eval", "exec"),
    *("exit", "export", "read", "set", "source", "trap"),
)
_PLAIN = re.compile(r"[\w./=:@,+%^-]+(?: +[\w./=:@,+%^-]+)*")  # words without a meaning to any shell


class CommandEnd(Struct, frozen=True):
    """A command's exit and output; without a code and a signal, it was still running."""

    output: str
    code: int | None = None
    signal: str | None = None
    truncated: bool = False
    timed_out: bool = False
    seen: bool = False  # the user sees its output already, in a terminal


class CommandNotRunning(Error):
    """There is no such command in the background; the message is for the model."""


class Running(Struct, frozen=True):
    """A command that runs beside the conversation: functions to read its output and to release it."""

    read: Callable[[], Awaitable[s.TerminalOutputResponse]]
    release: Callable[[], Awaitable[None]]


class Workplace:
    def __init__(self, session: AgentSession, permissions: CoderPermissions) -> None:
        self.session = session
        self.permissions = permissions
        self.journal = UndoJournal(session)
        self.files = ProjectFiles(session)
        self.seen: dict[str, str] = {}  # files that the model has read, with digests of their texts
        self.searches = asyncio.Semaphore(MAX_SEARCHES)  # each command is a process
        self.languages = LanguageServers(session.cwd, session.additional_directories)
        self.beside: dict[str, Running] = {}  # commands in the background, by the ids the model knows
        self._over: dict[str, s.TerminalOutputResponse] = {}  # the ended ones, in the order in which they ended
        self._terminals: Terminals | None = None
        self._spill: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)

    async def close(self) -> None:
        """Release directories, commands and stored output."""
        for id in list(self.beside):
            with contextlib.suppress(ConnectionClosed):
                await self.stop(id)
        if self._terminals:
            await self._terminals.close()
        await self.languages.close()
        self.files.close()
        if self._spill:
            self._spill.cleanup()

    def shown(self, path: str) -> str:
        """A path for titles: relative to the session's directory if it is in there."""
        relative = os.path.relpath(path, self.session.cwd)
        return path if relative.startswith("..") else relative

    # Files

    async def read(self, turn: Turn, call: ToolRun, path: str) -> str:
        """The text of a file, unsaved changes included; raises Unreadable."""
        await self.permissions.admit(turn, call, FileRead(path=path))
        text = await self.text(turn, path)
        if text is None:
            raise UnreadableFile(f"There is no file {self.shown(path)}.")
        self.seen[path] = digest(text)
        return text

    async def text(self, turn: Turn, path: str) -> str | None:
        """The text of a file that may be read; None if it is missing."""
        if self._is_spilled(path):
            return await asyncio.to_thread(read_here, path)
        return await self.files.text(turn, path)

    async def bytes_of(self, turn: Turn, call: ToolRun, path: str) -> bytes:
        """The bytes of a file on disk, for pictures and the like."""
        await self.permissions.admit(turn, call, FileRead(path=path))
        return await asyncio.to_thread(bytes_here, path)

    async def write(self, turn: Turn, call: ToolRun, path: str, old: str | None, new: str) -> None:
        """Replace a file after its change was shown and allowed; `old` is its text at that time."""
        self.must_be_writable(path)
        await call.diff(path, old, new)
        operation = FileWrite(path=path, digest=digest(new), creates=old is None)
        await self.permissions.admit(turn, call, operation)
        await call.start()
        if await self.text(turn, path) != old:
            raise UnreadableFile(f"{self.shown(path)} was changed by someone else meanwhile; read it again.")
        self.permissions.must_be_able_to_change()  # the user may have changed the mode at this very moment
        await self.put(turn, path, old, new)
        self.seen[path] = digest(new)

    async def put(self, turn: Turn, path: str, old: str | None, new: str, *, is_again: bool = False) -> None:
        """Write a file that was admitted, so that the edit can be undone."""
        number = await self.journal.record(path, old, new, is_again=is_again)  # before the file changes
        try:
            await self.files.put(turn, path, old, new)
        except RpcError as exc:
            with contextlib.suppress(Error):  # else nobody knows whether it was written: the entry stays
                await self.journal.withdraw(number, old if _is_untouched(exc) else await self.text(turn, path))
            raise

    async def write_together(self, turn: Turn, call: ToolRun, changes: Sequence[FileVersions]) -> None:
        """Change several files at once, after the whole change was shown and allowed: all of them or none."""
        for change in changes:
            self.must_be_writable(change.path)
        await call.show(
            *(s.Diff(path=change.path, old_text=change.before, new_text=change.after or "") for change in changes)
        )
        await self.permissions.admit_together(turn, call, [_operation(change) for change in changes])
        await call.start()
        for change in changes:
            if await self.text(turn, change.path) != change.before:
                raise UnreadableFile(f"{self.shown(change.path)} was changed by someone else meanwhile.")
        self.permissions.must_be_able_to_change()
        numbers = [await self.journal.record(c.path, c.before, c.after or "") for c in changes]
        try:
            await self.files.put_all(turn, changes)
        except Error:
            for number, change in zip(numbers, changes, strict=True):
                with contextlib.suppress(Error):  # else nobody knows whether it was written: the entry stays
                    await self.journal.withdraw(number, await self.text(turn, change.path))
            raise
        for change in changes:
            self.seen.pop(change.path, None)  # the model has not seen its current text

    def must_be_writable(self, path: str) -> None:
        if not self.files.lends("fs.write_text_file") and not self.permissions.is_inside(path):
            raise Denied(f"{path} lies outside the session's directories and cannot be written.")

    # Commands

    def command(self, line: str, cwd: str | None = None) -> Execute:
        """The argv of a command line: plain words as they are, anything else in a shell."""
        place = self.session.path(cwd or ".")
        program, *args = shlex.split(line) if _PLAIN.fullmatch(line) else [""]
        if program and "=" not in program and program not in _BUILTINS:
            return execution(program, args, cwd=place)
        return Execute(argv=("/bin/sh", "-c", line), cwd=place, shell=True)

    async def run(self, turn: Turn, call: ToolRun, operation: Execute, timeout: float) -> CommandEnd:
        """Run a command to its end, shown live where the client has terminals."""
        await self.permissions.admit(turn, call, operation)
        await call.start()
        if not self.files.lends("terminal"):
            return await self._run_here(operation, timeout)
        program, *args = operation.argv
        async with turn.terminal(program, *args, cwd=operation.cwd, output_byte_limit=MAX_OUTPUT) as terminal:
            await call.terminal(terminal)
            return await _ended(terminal, timeout)

    async def start(self, turn: Turn, call: ToolRun, operation: Execute) -> str:
        """Start a command in the background; returns its id."""
        await self._release_ended()
        if len(self.beside) >= MAX_BESIDE:
            raise Denied(f"{MAX_BESIDE} commands run in the background already; stop one first.")
        await self.permissions.admit(turn, call, operation)
        await call.start()
        if self.files.lends("terminal"):
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

    async def printed(self, id: str) -> s.TerminalOutputResponse:
        """The output of a background command, and its exit if it has ended; raises NotRunning."""
        if id in self._over:
            return self._over[id]
        return await self._running(id).read()

    async def stop(self, id: str) -> None:
        """End a command in the background if it still runs."""
        if id not in self._over:
            running = self._running(id)
            del self.beside[id]
            await running.release()

    def _running(self, id: str) -> Running:
        if id not in self.beside:
            raise CommandNotRunning(f"No command runs as {id!r}.")
        return self.beside[id]

    async def _release_ended(self) -> None:
        """Release ended commands; the output of the last ones can still be read."""
        for id, running in list(self.beside.items()):
            with contextlib.suppress(RpcError):  # otherwise it counts as running
                printed = await running.read()
                if printed.exit_status is not None:
                    await self.stop(id)
                    self._over[id] = printed
        for id in list(self._over)[:-MAX_BESIDE]:
            del self._over[id]

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

    async def _run_here(self, operation: Execute, timeout: float) -> CommandEnd:
        terminals = self._own_terminals()
        terminal = await terminals.create(self.session.id, operation, output_byte_limit=MAX_OUTPUT)
        try:
            status = await terminal.wait(timeout)
            if status is None:
                await terminal.kill(force=True)
                status = await terminal.wait()
                printed = terminal.output()
                return CommandEnd(printed.output, truncated=printed.truncated, timed_out=True)
            printed = terminal.output()
            return CommandEnd(printed.output, status.exit_code, status.signal, printed.truncated)
        finally:
            await asyncio.shield(terminals.release(self.session.id, terminal.id))

    # Output too long to be shown to the model

    def spill(self, text: str, name: str) -> str:
        """Store a text in a file of the session; returns its path."""
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(prefix="dragoman-")
            self.permissions.roots.append(os.path.realpath(self._spill.name))
        path = os.path.join(os.path.realpath(self._spill.name), f"{name}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _is_spilled(self, path: str) -> bool:
        return self._spill is not None and path.startswith(os.path.realpath(self._spill.name) + os.sep)


def _operation(change: FileVersions) -> FileWrite | FileDelete:
    if change.after is None:
        return FileDelete(path=change.path)
    return FileWrite(path=change.path, digest=digest(change.after), creates=change.before is None)


def _is_untouched(exc: RpcError) -> bool:
    """Whether one of our own hosts answers that it wrote nothing because the file had changed."""
    return isinstance(exc.data, dict) and exc.data.get("kind") in ("changed", "exists")


async def _ended(terminal: TerminalRun, timeout: float) -> CommandEnd:
    try:
        async with asyncio.timeout(timeout):
            status = await terminal.wait()
    except TimeoutError:
        await terminal.kill()
        printed = await terminal.output()
        return CommandEnd(printed.output, truncated=printed.truncated, timed_out=True, seen=True)
    printed = await terminal.output()
    return CommandEnd(printed.output, status.exit_code, status.signal, printed.truncated, seen=True)
