"""Commands as children that cannot outlive this process; `keeper/` says how.

`Keeper` starts commands, `Child` is one command.  Nothing here blocks: the keeper starts a command, instead of a
fork of this process, which may be large and have threads.  A command can stop and kill the keeper and its
supervisor.  So every wait for one of them has a limit, after which it is killed together with the processes that it
leaves behind.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...foundation.owning import own
from ...foundation.programs import has_python, python_command
from .keeper.commands import MOST_DESCRIPTORS
from .keeper.control_groups import end_group
from .keeper.processes import PATIENCE, end_marked, new_mark, send_within
from .keeper.supervisor import AT_ONCE, MORE

PROGRAM = Path(__file__).with_name("keeper")
LOST = -9  # the exit of a command whose supervisor was killed: it was killed as well
SILENCE = 1.0  # seconds after which a process that has not answered may have been stopped, and is continued
OVERDUE = PATIENCE + 1.0  # seconds for a supervisor to end everything before it is killed
KEEPER_PATIENCE = PATIENCE + 3.0  # seconds for a keeper to end; it gives its supervisors a little less
START_PATIENCE = 30.0  # seconds for a command to begin


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The command to run, and how to run it."""

    argv: Sequence[str]
    env: Sequence[tuple[str, str]]
    tty: bool = False  # stdin is a terminal, which becomes the command's controlling one
    limits: Mapping[str, int] = {}
    wrappers: int = 0  # processes around the command that get no signals
    kept: int = 0  # descriptors for the command, from 3 up
    staged: int = 0  # descriptors to mount under STAGE
    # the positions of kept descriptors that stay writable when all else is made read-only
    writable: Sequence[int] = ()
    # protected paths below each root; the roots' descriptors come last
    protected: Sequence[tuple[str, Sequence[str]]] = ()


class StartError(Exception):
    """The command could not be started; the text says why."""


class _NotTaken(StartError):
    """The keeper has not taken the command."""


class Watch(Protocol):
    """The interface that is told how a child ends."""

    def exited(self, code: int) -> None:
        """The command has ended; a negative code is a signal."""

    def gone(self, left: Sequence[int]) -> None:
        """All its processes have ended, except these, which could not be ended."""


class Child(asyncio.Protocol):
    """A command and all processes that it starts."""

    pid = 0

    def __init__(self, spec: CommandSpec, watch: Watch) -> None:
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self._spec, self._watch = spec, watch
        self._mark = new_mark()
        self._group: str | None = None  # its control group, where it has one
        self._heard = b""
        self._runs = self._abandoned = self._is_ending = False
        self._left: Sequence[int] | None = None  # the processes that could not be ended, once all others have
        self.set_aside: Sequence[Mapping[str, str]] = ()  # protected paths that were created or replaced meanwhile
        self._link: asyncio.Transport | None = None
        self._supervisor = 0
        self.session = 0  # the keeper's mark, which its supervisors share
        self._pidfd: int | None = None  # the mark of the command, while it runs
        self._timers: list[asyncio.TimerHandle] = []

    def signal(self, number: int) -> None:
        """Send a signal to the command and to the processes that it has started."""
        self._write(bytes([number]))

    def end(self) -> None:
        """Kill the command and all its processes, daemons included; `gone` is set soon."""
        self._is_ending = True
        self._write(b"\0")
        self._expect()

    def abandon(self) -> None:
        """End it, even if it has not begun."""
        self._abandoned = True
        self.end()

    def _write(self, data: bytes) -> None:
        if self._link and not self._link.is_closing():
            self._link.write(data)
            self._continue_supervisor()

    # Answers expected from the supervisor

    def _expect(self) -> None:
        """Expect an answer: a supervisor that is late is continued, and killed if that does not help."""
        if not self._timers and not self.gone.is_set():
            loop = asyncio.get_running_loop()
            continuing = loop.call_later(SILENCE, self._continue_supervisor)
            self._timers = [continuing, loop.call_later(OVERDUE, self._give_up)]

    def _continue_supervisor(self) -> None:
        self._tell_supervisor(signal.SIGCONT)

    def _give_up(self) -> None:
        self._tell_supervisor(signal.SIGKILL)
        if self._link:
            self._link.abort()

    def _tell_supervisor(self, number: int) -> None:
        if self._supervisor:
            send_within(self.session, self._supervisor, number)

    def _watch_command(self) -> None:
        """Notice the command's end even if its supervisor cannot report it."""
        # no pidfd is available, too many files are open, or it has ended already
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._command_ended)

    def _command_ended(self) -> None:
        self._unwatch_command()
        self._expect()

    def _unwatch_command(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _settle(self) -> None:
        """No answer is expected any more."""
        self._unwatch_command()
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    # Messages of the supervisor

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._link = transport
        if self._abandoned:  # it arrived before it was expected
            self._left = ()
            transport.close()
            return
        # Not msgspec's JSON: a variable need not be UTF-8, and must arrive unchanged.
        spec = {**msgspec.structs.asdict(self._spec), "mark": self._mark}
        transport.write(json.dumps(spec).encode() + b"\n")

    def data_received(self, data: bytes) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line))

    def _hear(self, news: dict[str, Any]) -> None:
        match news:
            case {"group": path}:
                self._group = path
            case {"pid": pid, "supervisor": supervisor}:
                self.pid, self._supervisor, self._runs = pid, supervisor, True
                self._watch_command()
                if not self.started.done():
                    self.started.set_result(None)
            case {"failed": reason}:
                self._left = ()
                self._fail(StartError(reason))
            case {"exit": code}:
                self._unwatch_command()
                if not self._is_ending:
                    self._settle()
                self._exit(code)
            case {"set_aside": changes}:
                self.set_aside = changes
            case {"left": left}:
                self._left = left
                if left and self._link:  # there is nothing left to wait for
                    self._link.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(_NotTaken("it was ended before it began"))
        self._settle()
        if self._left is None:  # the supervisor was killed, and may have been the only one that knew all processes
            own(self._sweep(), "sweep")
        else:
            self._end(self._left)

    async def _sweep(self) -> None:
        self._end(await asyncio.to_thread(self._end_hidden))

    def _end_hidden(self) -> list[int]:
        """Kill the remaining processes, now that their supervisor is gone."""
        return sorted({*end_group(self._group, PATIENCE), *end_marked(self._mark)})

    def _end(self, left: Sequence[int]) -> None:
        self._exit(LOST)
        self.gone.set()
        if self.pid or self._abandoned:  # otherwise the caller that starts it gets the error
            self._watch.gone(left)

    def _fail(self, error: StartError) -> None:
        if not self.started.done():
            self.started.set_exception(error)
            self.started.exception()  # not a fault if no caller waits for it any more

    def _exit(self, code: int) -> None:
        if self._runs:
            self._runs = False
            self._watch.exited(code)


class Keeper:
    """Starts commands; its program is started with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()  # kept until all their processes have ended
        self._retired: set[asyncio.Task[None]] = set()  # ends of programs that were replaced

    async def start(self, spec: CommandSpec, fds: Sequence[int], watch: Watch) -> Child:
        """Run a command on copies of stdin, stdout, stderr, its directory, and the other descriptors in the spec.

        Raises StartError when it cannot be run; the watch is always told when it is gone.
        """
        try:
            try:
                return await self._start(Child(spec, watch), fds)
            except _NotTaken:
                # the keeper was closed, or the command itself is at fault
                if self._process is None or self._is_alive():
                    raise
                return await self._start(Child(spec, watch), fds)
        except StartError:
            watch.gone(())
            raise

    async def _start(self, child: Child, fds: Sequence[int]) -> Child:
        if len(fds) >= MOST_DESCRIPTORS:
            raise StartError("it needs too many descriptors")
        try:
            if not self._is_alive():
                self._retire()
                self._launch()
            assert self._control and self._process
            ours, theirs = socket.socketpair()
        except OSError as exc:
            raise StartError(exc.strerror or str(exc)) from exc
        child.session = self._process.pid
        with theirs:
            try:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno()])
                for first in range(0, len(fds), AT_ONCE):
                    socket.send_fds(ours, [MORE], fds[first : first + AT_ONCE])
            except OSError as exc:
                ours.close()
                raise _NotTaken(exc.strerror or str(exc)) from exc
        self._children.add(child)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: child, sock=ours)
            await self._begun(child, self._process)
        except asyncio.CancelledError:
            child.abandon()
            raise
        return child

    async def _begun(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        """Wait until a command has begun; a keeper that was stopped is continued, and finally killed."""
        for number, patience in ((signal.SIGCONT, SILENCE), (signal.SIGKILL, START_PATIENCE)):
            await asyncio.wait([child.started], timeout=patience)
            if child.started.done():
                return child.started.result()
            process.send_signal(number)
        child.end()
        raise StartError("the program that starts commands did not answer, and was killed")

    async def close(self) -> None:
        """End all commands and the keeper's program, even if the caller is cancelled."""
        for child in tuple(self._children):
            child.end()
        try:
            for child in tuple(self._children):
                await child.gone.wait()
        finally:
            if self._control and self._process:
                self._control.close()
                process, self._process, self._control = self._process, None, None
                await _ended(process)
            await asyncio.gather(*self._retired)

    def _is_alive(self) -> bool:
        if self._control is None:
            return False
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _launch(self) -> None:
        if not hasattr(os, "fork") or not has_python():
            raise StartError("commands need a POSIX system and a Python interpreter")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                python_command(str(PROGRAM), str(theirs.fileno()), str(os.getpid()), site=False),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._control = ours

    def _retire(self) -> None:
        """Release the program if it was killed."""
        if self._control and self._process:
            self._control.close()
            ending = own(_ended(self._process), "keeper")
            self._retired.add(ending)
            ending.add_done_callback(self._retired.discard)
            self._control = self._process = None


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a program that was told to end; it is continued first, since it may have been stopped."""
    process.send_signal(signal.SIGCONT)
    if process.returncode is not None:
        return
    if not hasattr(os, "pidfd_open"):
        await asyncio.to_thread(_reap, process)
        return
    loop, over, pidfd = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(process.pid)
    loop.add_reader(pidfd, over.set)
    patience = KEEPER_PATIENCE  # when no caller waits any more
    try:
        async with asyncio.timeout(KEEPER_PATIENCE):
            await over.wait()
    except TimeoutError:
        patience = 0
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        _reap(process, patience)


def _reap(process: subprocess.Popen[bytes], patience: float = KEEPER_PATIENCE) -> None:
    """Block until a program has ended; one that takes too long is killed."""
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the system itself cannot end it
            process.wait(PATIENCE)
