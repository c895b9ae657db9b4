"""A command run for a test: a minimal terminal."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile

from .. import schema as s
from ..errors import InvalidParams


class RunningCommand:
    """A child process whose output goes to a temporary file; it is ended with its whole process group."""

    def __init__(self, params: s.CreateTerminalRequest) -> None:
        self._limit = params.output_byte_limit
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [params.command, *params.args],
                cwd=params.cwd,
                env={**os.environ, **{variable.name: variable.value for variable in params.env}},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as exc:
            self._output.close()
            raise InvalidParams(f"cannot run {params.command!r}: {exc.strerror}") from exc

    def output(self) -> s.TerminalOutputResponse:
        """Its output so far; with a limit, the end of it, beginning with a whole character."""
        size = os.fstat(self._output.fileno()).st_size
        start = 0 if self._limit is None else max(size - self._limit, 0)
        data = os.pread(self._output.fileno(), size - start, start)
        if start:
            data = data.lstrip(bytes(range(0x80, 0xC0)))
        return s.TerminalOutputResponse(
            output=data.decode(errors="replace"), truncated=start > 0, exit_status=self.status
        )

    @property
    def status(self) -> s.TerminalExitStatus | None:
        """How it ended; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        if code < 0:
            return s.TerminalExitStatus(signal=signal.Signals(-code).name)
        return s.TerminalExitStatus(exit_code=code)

    async def wait(self) -> s.TerminalExitStatus:
        await asyncio.to_thread(self._process.wait)
        return self.status or s.TerminalExitStatus()

    def kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)

    def release(self) -> None:
        """End it if it still runs, and release its output."""
        self.kill()
        self._process.wait()
        self._output.close()
