"""An agent's process as a wire: its standard streams, its last words, its end.

The child gets a session and process group of its own; closing the wire ends the whole group: stdin is closed, then
SIGTERM, then SIGKILL.  It also dies with us: the kernel kills it when this process is gone.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from ..errors import AgentExited, AgentStartError
from ..framing import MAX_FRAME
from .stdio import LAST_WORDS, StdioTransport

PATIENCE = 2.0  # seconds between the steps of the ladder
STDERR_KEPT = 64 * 1024
STDERR_SHOWN = 4 * 1024


class ProcessTransport(StdioTransport):
    def __init__(self, process: subprocess.Popen[bytes], limit: int = MAX_FRAME) -> None:
        super().__init__(limit)
        self.process = process
        self.on_stderr: Callable[[bytes], None] | None = None
        self.stderr_reader: asyncio.ReadTransport | None = None
        self._stderr = bytearray()
        self._exited = asyncio.Event()
        self._watch()

    @property
    def stderr(self) -> str:
        """The end of what the process has written to stderr."""
        return self._stderr[-STDERR_SHOWN:].decode(errors="replace")

    @property
    def status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.process.returncode

    async def why_ended(self) -> Exception:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._exited.wait()
        return AgentExited(self.status, self.stderr)

    async def close(self) -> None:
        """End the process: close its stdin, ask it to go, kill it; and whoever is left of its group."""
        self._writer.close()
        self.resume()  # one that still has something to say must be able to
        for step in (None, signal.SIGTERM, signal.SIGKILL):
            if step is not None:
                self._signal(step)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._exited.wait()
                    break
        await super().close()
        if self.stderr_reader:
            self.stderr_reader.close()

    def _signal(self, number: int) -> None:
        if self._exited.is_set():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _watch(self) -> None:
        """Notice the exit through a pidfd: no thread, no SIGCHLD handler, no reused pid."""
        if not hasattr(os, "pidfd_open"):
            self._loop.run_in_executor(None, self._wait)
            return
        pidfd = os.pidfd_open(self.process.pid)

        def exited() -> None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
            self._signal(signal.SIGKILL)  # whoever is left of its group, while its number is still its own
            self.process.poll()
            self._note_exit()

        self._loop.add_reader(pidfd, exited)

    def _wait(self) -> None:
        self.process.wait()
        self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        self._exited.set()
        # A grandchild may hold the pipe open; its parent's last words have arrived by then.
        self._loop.call_later(LAST_WORDS, self.heard_all)

    def heard_stderr(self, data: bytes) -> None:
        self._stderr += data
        if len(self._stderr) > STDERR_KEPT:
            del self._stderr[:-STDERR_KEPT]
        if self.on_stderr:
            self.on_stderr(data)


class _Stderr(asyncio.Protocol):
    def __init__(self, wire: ProcessTransport) -> None:
        self.data_received = wire.heard_stderr  # type: ignore[method-assign]


async def spawn(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = MAX_FRAME,
) -> ProcessTransport:
    """Start an agent's process; raises AgentStartError when it cannot be started."""
    if not argv:
        raise AgentStartError("no command was given")
    try:
        process = subprocess.Popen(
            list(argv),
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
    assert process.stdin and process.stdout and process.stderr
    wire = ProcessTransport(process, limit)
    await wire.open(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    process.stdin.close()
    process.stdout.close()
    loop = asyncio.get_running_loop()
    wire.stderr_reader, _ = await loop.connect_read_pipe(lambda: _Stderr(wire), process.stderr)
    return wire


def _reason(exc: Exception) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"no such file or directory: {exc.filename}"
    return exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)


def _die_with_parent() -> Callable[[], None] | None:
    """What a child runs before its program: ask the kernel to kill it when this thread is gone."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1
    parent = os.getpid()

    def before_exec() -> None:
        prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return before_exec
