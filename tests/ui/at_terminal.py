"""The command line as somebody runs it who sits at a terminal, or whose program reads a pipe."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from emulator import Emulator
from patience import PATIENCE

DRAGOMAN = [sys.executable, "-W", "error", "-m", "dragoman"]
PEERS = Path(__file__).parent / "peers"
TESTY = f"{sys.executable} -m dragoman agent testy"

SEQUENCE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


def peer(name: str, *words: str) -> str:
    """The command that starts one of the agents beside this file."""
    return " ".join([sys.executable, str(PEERS / f"{name}.py"), *words])


def dragoman(*arguments: str, cwd: Path | None = None, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command without a terminal."""
    command = [*DRAGOMAN, *arguments]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=PATIENCE, cwd=cwd)


class AtTerminal:
    """A command at a terminal of its own: keys are typed, signals come from keys, and the screen is read."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 100,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        program: Sequence[str] = DRAGOMAN,
    ) -> None:
        """`stdin`: what comes from a pipe instead of the keyboard."""
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=theirs if stdin is None else subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal to it
        )
        os.close(theirs)
        if self.process.stdin is not None and stdin is not None:
            with self.process.stdin as pipe:
                pipe.write(stdin.encode())
        self.columns = columns
        self.raw = ""  # everything that was shown, colours and all
        self._seen = 0

    @property
    def screen(self) -> str:
        """What was shown, without its colours."""
        return SEQUENCE.sub("", self.raw).replace("\r\n", "\n")

    @property
    def seen(self) -> list[str]:
        """The lines somebody sees by now, those that have scrolled away first."""
        emulator = Emulator(self.columns)
        emulator.feed(self.raw)
        return emulator.lines

    def see(self, words: str) -> str:
        """Wait until these words are shown, behind those waited for last; gives what was shown between the two."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.screen.find(words, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{words!r} was never shown:\n{self.screen}")
        before, self._seen = self._seen, found + len(words)
        return self.screen[before:found]

    def shows(self, words: str, within: float) -> bool:
        """Whether these words come in so many seconds, behind those waited for last."""
        deadline = time.monotonic() + within
        while (is_there := words in self.screen[self._seen :]) is False and self._read(deadline):
            pass
        return is_there

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        """Wait for the end, and give the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.fd)
