"""An agent's process as a transport: its standard streams, the end of its stderr, its exit.

The child gets its own session and process group.  Closing the transport ends the whole group: stdin is closed, then
SIGTERM, then SIGKILL.  The child also dies with us: the kernel kills it when this process ends.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from ..errors import AgentExited, AgentStartError
from ..foundation.owning import take
from ..foundation.programs import find_program
from ..framing import MAX_FRAME
from .stdio import LAST_WORDS, StdioTransport

log = logging.getLogger("dragoman")

PATIENCE = 2.0  # seconds between these steps
STDERR_KEPT = 64 * 1024
STDERR_SHOWN = 4 * 1024


class ProcessTransport(StdioTransport):
    def __init__(self, process: subprocess.Popen[bytes], limit: int = MAX_FRAME) -> None:
        super().__init__(limit)
        self.process = process
        self.on_stderr: Callable[[bytes], None] | None = None
        self.stderr_reader: asyncio.ReadTransport | None = None
        self._stderr = bytearray()
        self._exited: asyncio.Future[None] = self._loop.create_future()  # a future is smaller than an Event
        self._watch()

    @property
    def stderr(self) -> str:
        """The end of the process's stderr output."""
        return self._stderr[-STDERR_SHOWN:].decode(errors="replace")

    @property
    def status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.process.returncode

    async def why_ended(self) -> Exception:
        await self._ends_within(LAST_WORDS)
        return AgentExited(self.status, self.stderr)

    async def _close(self) -> None:
        """End the process: close its stdin, terminate it, kill it; then kill the rest of its group."""
        self._writer.close()
        self.resume()  # a process that is still writing must be able to finish
        try:
            for step in (None, signal.SIGTERM, signal.SIGKILL):
                if step is not None:
                    self.send_signal(step)
                if await self._ends_within(PATIENCE):
                    break
        finally:  # when the event loop itself ends, there is no time to wait
            self.send_signal(signal.SIGKILL)
            if self.stderr_reader:
                self.stderr_reader.close()
            await super()._close()

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait([self._exited], timeout=seconds)
        return self._exited.done()

    async def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, once the process has ended; None when that takes longer than `timeout` seconds."""
        await asyncio.wait([self._exited], timeout=timeout)
        return self.status

    def send_signal(self, number: int) -> None:
        """Send a signal to the process and its group; once it has ended, nothing happens."""
        if self._exited.done():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _watch(self) -> None:
        """Notice the exit through a pidfd, without a thread, a SIGCHLD handler or the risk of a reused pid."""
        if not hasattr(os, "pidfd_open"):
            self._loop.run_in_executor(None, self._wait)
            return
        pidfd = os.pidfd_open(self.process.pid)

        def exited() -> None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
            self.send_signal(signal.SIGKILL)  # the rest of its group, while the group still has this number
            self.process.poll()
            self._note_exit()

        self._loop.add_reader(pidfd, exited)

    def _wait(self) -> None:
        self.process.wait()
        self._loop.call_soon_threadsafe(self._note_exit)

    def _mark_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def _note_exit(self) -> None:
        self._mark_exited()
        # A grandchild may hold the pipe open; the last output of its parent has arrived by then.
        self.end_soon()

    def heard_stderr(self, data: bytes) -> None:
        self._stderr += data
        if len(self._stderr) > STDERR_KEPT:
            del self._stderr[:-STDERR_KEPT]
        if self.on_stderr:
            try:
                self.on_stderr(data)
            except Exception:
                log.exception("on_stderr failed; it is not called again")
                self.on_stderr = None


class _Stderr(asyncio.Protocol):
    def __init__(self, wire: ProcessTransport) -> None:
        self.data_received = wire.heard_stderr  # type: ignore[method-assign]


async def spawn(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = MAX_FRAME,
    on_stderr: Callable[[bytes], None] | None = None,
) -> ProcessTransport:
    """Start an agent's process; raises AgentStartError when it cannot be started.

    `on_stderr` is called with all bytes that it writes to stderr.
    """
    return await take(_spawn(argv, cwd, env, limit, on_stderr), ProcessTransport.close)


async def _spawn(
    argv: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    limit: int,
    on_stderr: Callable[[bytes], None] | None,
) -> ProcessTransport:
    process = _start(argv, cwd, env)
    assert process.stdin and process.stdout and process.stderr
    with process.stdin, process.stdout, contextlib.ExitStack() as unowned:
        unowned.enter_context(process.stderr)
        wire = _owned(process, limit)
        wire.on_stderr = on_stderr
        try:
            await wire.open(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
            loop = asyncio.get_running_loop()
            wire.stderr_reader, _ = await loop.connect_read_pipe(lambda: _Stderr(wire), process.stderr)
        except BaseException as exc:
            await wire.close()
            if isinstance(exc, OSError):
                raise AgentStartError(f"cannot talk to {argv[0]!r}: {_reason(exc)}") from exc
            raise
        unowned.pop_all()
    return wire


def _start(
    argv: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            list(argv),
            executable=program(argv, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env) if env is not None else None,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        raise AgentStartError(f"cannot start {argv[0]!r}: {_reason(exc)}") from exc


def program(argv: Sequence[str], env: Mapping[str, str] | None) -> str:
    """The program that a command means; a name alone is searched in absolute entries of the PATH only."""
    if not argv or not argv[0]:
        raise AgentStartError("no command was given")
    name, environ = argv[0], os.environ if env is None else env
    found = name if "/" in name else find_program(name, path=environ.get("PATH"))
    if found is None:
        exc = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        raise AgentStartError(f"cannot start {name!r}: {_reason(exc)}")
    return found


def _owned(process: "subprocess.Popen[bytes]", limit: int) -> ProcessTransport:
    """The transport that owns a process; a process that cannot be watched is ended at once."""
    try:
        return ProcessTransport(process, limit)
    except OSError as exc:
        # it has ended and was not waited for, since SIGCHLD is ignored
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise AgentStartError(f"cannot watch the agent's process: {_reason(exc)}") from exc


def _reason(exc: Exception) -> str:
    if isinstance(exc, FileNotFoundError):
        if exc.filename and os.path.isfile(exc.filename):
            return f"the interpreter in its first line does not exist: {exc.filename}"
        return f"no such file or directory: {exc.filename}"
    return exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)


def _die_with_parent() -> Callable[[], None] | None:
    """Runs in the child before its program: make the kernel kill the child when our thread ends."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1
    parent = os.getpid()

    def before_exec() -> None:
        prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended in between
            os._exit(1)

    return before_exec
