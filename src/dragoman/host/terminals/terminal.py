"""A command that runs for an agent: its output, exit and input."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal as signals
import struct
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ... import schema as s
from ...errors import InvalidParams
from ...foundation.unix import fcntl, termios
from ..operations import Execute
from .children import Child, StartError
from .output import Chunk, PrintedOutput, ReadingPace, StreamName
from .sandbox.bubblewrap import Wrapped

log = logging.getLogger("dragoman")

SHELLS_SIGNAL = 128  # added to a signal by shells and sandboxes to make an exit code


class Size(NamedTuple):
    columns: int
    rows: int


class Wiring:
    """Both ends of a command's standard streams; the command's ends are kept only while it is being started."""

    def __init__(self, size: Size | None, apart: bool) -> None:
        self.theirs: list[int] = []  # stdin, stdout, stderr
        self.keyboard: int | None = None
        self.ours: list[tuple[int, StreamName]] = []
        try:
            if size is None:
                self._lay_pipes(apart)
            else:
                self._lay_terminal(size)
        except OSError as exc:
            for fd in (*self.theirs, *(fd for fd, _ in self.ours)):
                os.close(fd)
            raise StartError(exc.strerror) from exc

    def _lay_pipes(self, apart: bool) -> None:
        self.theirs.append(os.open(os.devnull, os.O_RDONLY))
        names: tuple[StreamName, ...] = ("stdout", "stderr") if apart else ("stdout",)
        for name in names:
            reading, writing = os.pipe()
            self.theirs.append(writing)
            self.ours.append((reading, name))
        if not apart:
            self.theirs.append(os.dup(self.theirs[1]))

    def _lay_terminal(self, size: Size) -> None:
        master, slave = os.openpty()
        set_size(master, size)
        self.ours.append((master, "stdout"))
        self.theirs.append(slave)
        self.theirs += [os.dup(slave) for _ in "12"]
        self.keyboard = os.dup(master)
        os.set_blocking(self.keyboard, False)

    def close(self) -> None:
        """Close the command's ends."""
        for fd in self.theirs:
            os.close(fd)


class Terminal:
    """A command, from its start until it is released; as a `Watch`, it is told when the command ends."""

    def __init__(self, session_id: str, operation: Execute, kept: int, grace: float, pace: ReadingPace) -> None:
        self.id = f"term_{secrets.token_hex(16)}"  # 128 bits, so that it cannot be guessed
        self.session_id, self.operation = session_id, operation
        self.wrapped: Wrapped | None = None  # its sandbox
        self.timed_out = False  # it was ended by its time limit
        self.status: s.TerminalExitStatus | None = None  # None while it runs
        self._output = PrintedOutput(kept, pace)
        self._keyboard: TerminalInput | None = None
        self._child: Child | None = None
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._released = False
        self._sent: set[int] = set()
        self._grace = grace
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def pid(self) -> int:
        """The command's process id; in a sandbox that of the sandbox."""
        return self._child.pid if self._child else 0

    def output(self) -> s.TerminalOutputResponse:
        """Its output so far, and its exit if it has ended."""
        tail = self._output.tail
        return s.TerminalOutputResponse(output=str(tail), truncated=tail.truncated, exit_status=self.status)

    def follow(self) -> AsyncGenerator[Chunk, None]:
        """Its output so far, then new output, until it ends; a slow reader slows the command."""
        return self._output.follow()

    async def wait(self, timeout: float | None = None) -> s.TerminalExitStatus | None:
        """Wait for the exit status; None when that takes longer than `timeout` seconds.

        Background processes that it has left are not waited for.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        return self.status

    async def kill(self, signal: str | int | None = None, *, force: bool = False) -> None:
        """End it and all its processes; its output can still be read.

        It gets SIGTERM first, and is killed if it does not end; with `force`, at once.  With a signal, by name or
        number, only that signal is sent.
        """
        chosen = signals.SIGTERM if signal is None else _number(signal)
        if self._gone.is_set():
            return
        if force or chosen == signals.SIGKILL:
            self._kill()
        elif signal is None:
            self._terminate()
        else:
            self._send(chosen)
            return
        await self._gone.wait()

    async def input(self, text: str) -> None:
        """Type a text into it; returns when the whole text was taken."""
        keyboard = self._interactive()
        if self.status is not None:
            raise InvalidParams("the command has ended", {"kind": "ended"})
        await keyboard.type(text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of an interactive terminal."""
        self._interactive().resize(checked_size(columns, rows))

    @property
    def reads_lines(self) -> bool:
        """Whether the command reads its input by lines; the system then keeps only 4095 bytes of a line."""
        return self._interactive().reads_lines

    def _interactive(self) -> "TerminalInput":
        if self._keyboard is None:
            raise InvalidParams(
                "this terminal is not interactive; create one with a size", {"kind": "not_interactive"}
            )
        return self._keyboard

    # Beginning and end

    def attach(self, wiring: Wiring) -> None:
        """Take over our ends of the command's streams."""
        for fd, name in wiring.ours:
            self._output.listen(fd, name)
        if wiring.keyboard is not None:
            self._keyboard = TerminalInput(wiring.keyboard)

    def begin(self, child: Child, timeout: float | None) -> None:
        """Note the process that was started, and start its time limit."""
        self._child = child
        if self.status is not None:  # now that our copies of its ends are closed as well, its streams have ended
            self._output.end()
        if timeout is not None and not self._gone.is_set():
            self._later(timeout, self._time_is_up)

    def dismiss(self) -> None:
        """End it, and forget its output as soon as it has ended."""
        self._released = True
        if self._gone.is_set() or self._child is None:
            self._let_go()
        else:
            self._terminate()

    async def dismissed(self) -> None:
        """Wait until a dismissed command and its processes are gone."""
        if self._child is not None:
            await self._gone.wait()

    def exited(self, code: int) -> None:
        """Note how the command ended."""
        self._output.end()
        self.status = _status(code, self._sent if self.wrapped and self.wrapped.processes else ())
        if self._keyboard:
            self._keyboard.close()
        self._ended.set()

    def gone(self, left: Sequence[int]) -> None:
        """Note that no process of the command is left, or which ones could not be ended."""
        for change in self._child.set_aside if self._child else ():
            log.warning("terminal %s: %s", self.id, _told_of(change))
        if left:
            log.warning("terminal %s: processes %s could not be ended", self.id, list(left))
        for timer in self._timers:
            timer.cancel()
        self._output.end()
        self._gone.set()
        if self._released:
            self._let_go()

    def _let_go(self) -> None:
        self._output.close()
        if self._keyboard:
            self._keyboard.close()

    def _time_is_up(self) -> None:
        self.timed_out = self.status is None
        self._terminate()

    def _terminate(self) -> None:
        self._send(signals.SIGTERM)
        self._later(self._grace, self._kill)

    def _kill(self) -> None:
        if self._child:
            self._child.end()

    def _send(self, number: int) -> None:
        self._sent.add(number)
        if self._child:
            self._child.signal(number)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))


class TerminalInput:
    """Input for an interactive terminal; the descriptor is closed here."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._closed = False
        self._turn = asyncio.Lock()  # texts that are typed at once are not mixed
        self._room = asyncio.Event()

    async def type(self, data: bytes) -> None:
        async with self._turn:
            while data and not self._closed:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:
                    await self._wait_for_room()
                except OSError:  # no process has it open any more
                    return

    def resize(self, size: Size) -> None:
        if not self._closed:
            set_size(self._fd, size)

    @property
    def reads_lines(self) -> bool:
        if self._closed:
            return False
        local_flags: int = termios.tcgetattr(self._fd)[3]
        return bool(local_flags & termios.ICANON)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._room.set()

    async def _wait_for_room(self) -> None:
        self._room.clear()
        asyncio.get_running_loop().add_writer(self._fd, self._room.set)
        try:
            await self._room.wait()
        finally:
            if not self._closed:
                asyncio.get_running_loop().remove_writer(self._fd)


def checked_size(columns: int, rows: int) -> Size:
    if not (0 < columns < 1 << 16 and 0 < rows < 1 << 16):
        raise InvalidParams("a terminal's size is between 1 and 65535 columns and rows", {"kind": "bad_size"})
    return Size(columns, rows)


def set_size(fd: int, size: Size) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _status(code: int, sent: Collection[int]) -> s.TerminalExitStatus:
    if code - SHELLS_SIGNAL in sent:  # the sandbox reports so about the command inside
        code = SHELLS_SIGNAL - code
    if code >= 0:
        return s.TerminalExitStatus(exit_code=code)
    try:
        return s.TerminalExitStatus(signal=signals.Signals(-code).name)
    except ValueError:
        return s.TerminalExitStatus(signal=f"SIGRTMIN+{-code - signals.SIGRTMIN}")


def _told_of(change: Mapping[str, str]) -> str:
    what = f"{change['path']} is protected, and was created or replaced while the command ran in a sandbox"
    if why := change.get("failed"):
        return f"{what}; it could not be set aside: {why}. Look at it before you use it"
    kept = f"{what}; it was set aside as {change.get('kept_as', 'nothing')}"
    return f"{kept}, and what was there before was put back" if "put_back" in change else kept


def _number(signal: str | int) -> int:
    """The number of a signal, given by name or number."""
    try:
        if isinstance(signal, int):
            return signals.Signals(signal)
        name = signal.upper()
        return signals.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except (KeyError, ValueError):
        raise InvalidParams(f"there is no signal {signal!r}", {"kind": "unknown_signal"}) from None
