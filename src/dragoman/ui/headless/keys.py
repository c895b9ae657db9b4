"""Questions answered with one key.

A key counts when it is pressed alone: after half a second in which nothing came, and with nothing right behind it.
So nothing that was typed ahead, is held down, is being written or is pasted answers a question.  Enter, and any key
that stands for nothing, is never an answer.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from ...foundation.unix import termios, tty
from ...host.permissions import Option, Question
from .screen import Screen

ARMING = 0.5  # seconds of silence before a key counts
ALONE = 0.2  # seconds of silence behind it
TICK = 0.05  # seconds between two looks at the keyboard
BROKEN_OFF = 2.0  # seconds of silence after which a paste that does not end is over
PASTING, TYPING = b"\x1b[?2004h", b"\x1b[?2004l"  # have the terminal mark what is pasted, or not
PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"
ESCAPE, END = "\x1b", "\x04"  # the two keys that close a question without an answer, which means no
SPARE = "123456789bcefghijklmopqrtuvxz"  # for further options of a kind
LETTERS = {
    (True, "once"): "y",
    (True, "session"): "s",
    (True, "workspace"): "w",
    (True, "always"): "a",
    (False, "once"): "n",
    (False, "always"): "r",
}
DENY_TURN = "d"


class _Answer(Protocol):
    """One answer of a question, as the engine of permissions has it or the view model."""

    @property
    def id(self) -> str: ...
    @property
    def allows(self) -> bool: ...
    @property
    def scope(self) -> str: ...


A = TypeVar("A", bound=_Answer)


def keys_for(options: Iterable[A]) -> dict[str, A]:
    """A key for each option: its own letter, a number where the letter is taken."""
    keys: dict[str, A] = {}
    for option in options:
        letter = DENY_TURN if option.id == "reject_turn" else LETTERS.get((option.allows, option.scope), "")
        spare = next(key for key in SPARE if key not in keys)
        keys[letter if letter and letter not in keys else spare] = option
    return keys


class Keyboard:
    """The terminal the user sits at, one key at a time.

    Silence is counted in looks at the keyboard, not by the clock: a process that is held up counts none.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] = []  # the terminal's settings while nobody is asked
        self._is_gone = False
        self._is_pasting = False
        self._was_stopped = False
        self._last = ""  # the end of what came last, where a mark may have begun

    @classmethod
    def of(cls, fd: int) -> "Keyboard | None":
        """The keyboard of the terminal a descriptor leads to, opened anew: others read it as before."""
        try:
            return cls(os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:  # a terminal without a name, as in some containers
            return None

    def close(self) -> None:
        os.close(self._fd)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take keys as they are pressed, and without showing them; signals stay signals."""
        loop = asyncio.get_running_loop()
        try:
            self._before = termios.tcgetattr(self._fd)
        except termios.error:  # the terminal is gone
            self._is_gone = True
        heeded = {signal.SIGTSTP: self._stop, signal.SIGCONT: self._go_on}
        heeded = {number: heed for number, heed in heeded.items() if signal.getsignal(number) != signal.SIG_IGN}
        for number, heed in heeded.items():
            loop.add_signal_handler(number, heed)
        self._take()
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)
            self._give_back()

    async def silence(self, seconds: float) -> None:
        """Wait until nothing has come for so long; what comes meanwhile is thrown away."""
        quiet = 0.0
        while not self._is_gone and (quiet < seconds or self._is_pasting):
            quiet = 0.0 if await self._next() else quiet + TICK
            if self._is_pasting and quiet >= BROKEN_OFF:
                self._is_pasting, quiet = False, 0.0

    async def key(self) -> str:
        """The next key that is pressed alone; nothing where something else came, which needs silence again."""
        self._was_stopped = False
        while not (key := await self._next()):
            if self._is_gone:
                return END
            if self._was_stopped:
                return ""
        quiet = 0.0
        while quiet < ALONE:
            if self._is_pasting or await self._next() or self._was_stopped:
                return ""
            quiet += TICK
        return key

    async def _next(self) -> str:
        """All that has come since the last look."""
        await asyncio.sleep(TICK)
        try:
            data = os.read(self._fd, 65536)
            self._is_gone = not data
        except BlockingIOError:
            return ""
        except OSError:
            self._is_gone = True
            return ""
        text = data.decode(errors="replace")
        joined = self._last + text
        self._last = joined[1 - len(PASTE) :]
        if (begin := joined.rfind(PASTE)) != (end := joined.rfind(PASTE_END)):
            self._is_pasting = begin > end
        return text

    def _take(self) -> None:
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone, which `_next` finds out
            tty.setcbreak(self._fd)  # which throws away what was typed ahead
            if os.environ.get("TERM") != "dumb":
                os.write(self._fd, PASTING)

    def _give_back(self) -> None:
        with contextlib.suppress(termios.error, OSError):
            if os.environ.get("TERM") != "dumb":
                os.write(self._fd, TYPING)
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._before)

    def _stop(self) -> None:
        """Ctrl-Z: the shell gets its terminal back as it was, and we stop where it can continue us."""
        loop = asyncio.get_running_loop()
        self._give_back()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._go_on()

    def _go_on(self) -> None:
        """We run again, and whoever stopped us may have set the terminal to something else."""
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self._fd) == os.getpgrp():  # else we would be stopped for touching it
                self._take()
        self._was_stopped = True


class KeyPrompt:
    """Where the user is asked; one question at a time has it."""

    def __init__(self, screen: Screen, keyboard: Keyboard, arming: float = ARMING) -> None:
        self._screen, self._keyboard, self._arming = screen, keyboard, arming

    async def ask(self, question: Question) -> str | None:
        """The id of the option the user chose; None when they closed the question."""
        keys = keys_for(question.options)
        with self._keyboard.listening():
            self._screen.question(question, keys)
            try:
                option = await self._choice(keys)
            except asyncio.CancelledError:
                self._screen.answered("withdrawn")
                raise
        self._screen.answered(option.label if option else "No answer, so no")
        return option.id if option else None

    async def _choice(self, keys: dict[str, Option]) -> Option | None:
        words, is_first = "Press a key:", True
        while True:
            await self._keyboard.silence(self._arming)
            self._screen.prompt(words, again=not is_first)
            if (key := await self._keyboard.key()) in (ESCAPE, END):
                return None
            if option := keys.get(key):
                return option
            words, is_first = f"Press one of {', '.join(keys)}:", False
