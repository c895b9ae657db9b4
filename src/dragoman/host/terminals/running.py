"""Commands run for an agent: `Terminals` starts them, a `Terminal` is one command.

This takes two steps, so that the permission is for exactly the command that then runs: `execution` gives the
operation that a request would run, and `Terminals.create` runs that operation.

    operation = execution("npm", ["test"], cwd="/home/ada/project")
    terminal = await terminals.create(session_id, operation)
    terminal = terminals.find(session_id, terminal_id)      # the first step of every later request

A command has its own session, no stdin unless it is interactive, and the environment of `environment.py`.  If the
host has a `Sandbox`, it runs in the sandbox or not at all.  The errors that an agent is given:

    ResourceNotFound   kind unknown_terminal      the session has no such terminal
    InvalidParams      kind cannot_start          the command, its directory or its environment cannot be used
    InvalidParams      kind not_interactive       input or a size for a terminal that was created without one
    InvalidParams      kind ended                 input for a command that has ended
    InvalidParams      kind unknown_signal, bad_size
    Overloaded         kind terminal_limit        too many terminals; release one first
    InternalError      kind sandbox_unavailable   commands have to run in a sandbox, and none works here
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from ...errors import InvalidParams, Overloaded, ResourceNotFound
from ...foundation.places import Place, open_place
from ..isolation.hiding import PROCESSES, Hiding
from ..operations import Execute
from .children import Child, Keeper, StartError
from .environment import dangerous, environment
from .limits import TerminalLimits
from .output import ReadingPace
from .sandbox.bubblewrap import Wrapped
from .sandbox.sandbox import Sandbox
from .terminal import Size, Terminal, Wiring

SHELL = "/bin/sh"
SHELL_SYNTAX = re.compile(r"""[\s|&;<>()$`\\"'*?\[\]{}#~!^%]""")


def execution(
    command: str,
    args: Sequence[str] = (),
    *,
    cwd: str,
    env: Iterable[tuple[str, str]] = (),
    interactive: bool = False,
) -> Execute:
    """The operation that a request for this command would run; `cwd` is the real path of the directory.

    A command with arguments is run as it is.  A command line without arguments that needs a shell is given to a
    shell, and the operation says so.
    """
    variables = tuple(dict(env).items())
    for text in (command, *args, cwd, *(part for pair in variables for part in pair)):
        _check_text(text)
    if not command:
        raise cannot_start("the command is empty")
    if any(not name or "=" in name for name, _ in variables):
        raise cannot_start("a variable's name is empty or contains '='")
    shell = not args and bool(SHELL_SYNTAX.search(command)) and not _is_program(command, cwd)
    return Execute(
        argv=(SHELL, "-c", command) if shell else (command, *args),
        cwd=cwd,
        env=variables,
        shell=shell,
        dangerous_env=dangerous(variables),
        interactive=interactive,
    )


class Terminals:
    """The terminals of all sessions of one host; `close`, or leaving it as a context, ends them all."""

    def __init__(
        self,
        *,
        limits: TerminalLimits = TerminalLimits(),  # noqa: B008 - it cannot change
        sandbox: Sandbox | None = None,
        hiding: Hiding | None = None,
        inherit: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`hiding` is what commands without a sandbox do not see.

        `inherit` names variables of ours that commands get beyond the usual ones; `environ` is ours.
        """
        self.limits, self.sandbox, self.hiding = limits, sandbox, hiding
        self._inherit, self._environ = tuple(inherit), environ
        self._keeper = Keeper()
        self._pace = ReadingPace()
        self._terminals: dict[str, Terminal] = {}

    async def create(
        self,
        session_id: str,
        operation: Execute,
        *,
        directory: Place | None = None,
        roots: Sequence[Place] = (),
        output_byte_limit: int | None = None,
        timeout: float | None = None,
        size: Size | None = None,
        apart: bool = False,
    ) -> Terminal:
        """Run an operation, and return as soon as it runs.

        `directory`: the operation's cwd, held open; without it, the cwd is opened by its path.
        `roots`: the directories that can be written in a sandbox; by default the cwd.
        `timeout`: seconds after which the command is ended.
        `size`: the size of the terminal, for an interactive command.
        `apart`: give followers stdout and stderr apart, which may change the order between them.
        """
        if operation.interactive != (size is not None):
            raise ValueError("an interactive command needs a size, and other commands take none")
        self._check_room(session_id)
        kept = self.limits.kept(output_byte_limit)
        terminal = Terminal(session_id, operation, kept, self.limits.grace, self._pace)
        self._terminals[terminal.id] = terminal
        try:
            with contextlib.ExitStack() as opened:
                cwd = _directory(operation.cwd, opened) if directory is None else directory
                found: Mapping[Place, Sequence[str]] = {}
                if self.sandbox:
                    await self.sandbox.check(roots or [cwd])
                    await self.sandbox.separate(roots or [cwd])
                    found = await self.sandbox.survey(roots or [cwd])
                    self._check_wanted(terminal)
                wrapped = self._wrapped(operation, roots or [cwd], found)
                child = await self._start(terminal, cwd, wrapped, size, apart, opened)
        except BaseException as exc:
            self._terminals.pop(terminal.id, None)
            terminal.dismiss()
            if isinstance(exc, StartError):
                raise cannot_start(f"cannot run {operation.argv[0]!r}: {exc}") from exc
            raise
        terminal.begin(child, self.limits.lasting(timeout))
        if terminal.id not in self._terminals:
            terminal.dismiss()
            self._check_wanted(terminal)
        return terminal

    async def _start(
        self,
        terminal: Terminal,
        cwd: Place,
        wrapped: Wrapped,
        size: Size | None,
        apart: bool,
        opened: contextlib.ExitStack,
    ) -> Child:
        opened.callback(wrapped.close)
        terminal.wrapped = wrapped
        wiring = Wiring(size, apart)
        opened.callback(wiring.close)
        terminal.attach(wiring)
        limits = {"CORE": 0} if self.sandbox else self.limits.resources()
        spec = wrapped.spec(limits=limits, tty=size is not None and not self.sandbox and not self.hiding)
        return await self._keeper.start(spec, [*wiring.theirs, cwd.fd, *wrapped.descriptors], terminal)

    def _wrapped(self, operation: Execute, roots: Sequence[Place], found: Mapping[Place, Sequence[str]]) -> Wrapped:
        ours = os.environ if self._environ is None else self._environ
        if self.sandbox:
            ours = {**ours, **self.sandbox.environ}
        env = environment(operation.env, inherit=self._inherit, environ=ours)
        if self.sandbox:
            return self.sandbox.wrap(
                operation.argv,
                env,
                operation.cwd,
                roots,
                interactive=operation.interactive,
                limits=self.limits.resources(),
                found=found,
            )
        if self.hiding:
            argv = self.hiding.command(operation.argv, interactive=operation.interactive)
            return Wrapped(argv, env, processes=PROCESSES)
        return Wrapped(operation.argv, env)

    def find(self, session_id: str, terminal_id: str) -> Terminal:
        """A terminal of this session; one of another session is indistinguishable from a missing one."""
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.session_id != session_id:
            raise ResourceNotFound(
                "there is no such terminal in this session; terminal/create makes one", {"kind": "unknown_terminal"}
            )
        return terminal

    def of(self, session_id: str) -> list[Terminal]:
        """All terminals of a session."""
        return [terminal for terminal in self._terminals.values() if terminal.session_id == session_id]

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End a command with all its processes, if it still runs, and forget it; its id is invalid at once."""
        terminal = self.find(session_id, terminal_id)
        del self._terminals[terminal.id]
        terminal.dismiss()
        await terminal.dismissed()

    async def close(self, session_id: str | None = None) -> None:
        """Release all terminals of a session, or of all sessions."""
        closed = list(self._terminals.values()) if session_id is None else self.of(session_id)
        for terminal in closed:
            del self._terminals[terminal.id]
            terminal.dismiss()
        try:
            for terminal in closed:
                await terminal.dismissed()
        finally:
            if session_id is None:
                await self._keeper.close()

    async def make_way(self, path: str) -> None:
        """End commands in sandboxes that protect a path, since the path is about to be changed from outside."""
        ending = [each for each in self._terminals.values() if each.wrapped and each.wrapped.protects(path)]
        await asyncio.gather(*(terminal.kill(force=True) for terminal in ending))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_room(self, session_id: str) -> None:
        for count, limit, whose in (
            (len(self.of(session_id)), self.limits.per_session, "session"),
            (len(self._terminals), self.limits.per_host, "host"),
        ):
            if count >= limit:
                raise Overloaded(
                    f"this {whose} has reached its limit of {count} terminals; release one with terminal/release",
                    {"kind": "terminal_limit", "limit": limit, "scope": whose},
                )

    def _check_wanted(self, terminal: Terminal) -> None:
        if terminal.id not in self._terminals:
            raise cannot_start("the session was closed")


def cannot_start(reason: str) -> InvalidParams:
    return InvalidParams(reason, {"kind": "cannot_start"})


def _directory(path: str, opened: contextlib.ExitStack) -> Place:
    """Open a directory while the command is being started."""
    try:
        return opened.enter_context(open_place(path, os.O_DIRECTORY))
    except OSError as exc:
        raise cannot_start(f"cannot run anything in {path!r}: {exc.strerror}") from exc


def _check_text(text: str) -> None:
    if "\0" in text:
        raise cannot_start("a command, its arguments, its directory and its variables cannot contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise cannot_start(
            "a command, its arguments, its directory and its variables must be valid Unicode"
        ) from None


def _is_program(command: str, cwd: str) -> bool:
    """Whether this is the path of an executable file; it may contain blanks."""
    path = os.path.join(cwd, command)
    return "/" in command and os.path.isfile(path) and os.access(path, os.X_OK)
