"""Questions that the user answers with one key.

A key counts if it is pressed alone: after half a second of silence, and with nothing right after it.  So text that
was typed ahead, a held key, fast typing and pasted text never answer a question.  Neither do Enter and keys without
a meaning.
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
ALONE = 0.2  # seconds of silence after it
TICK = 0.05  # seconds between two reads of the keyboard
BROKEN_OFF = 2.0  # seconds of silence after which an unfinished paste counts as ended
PASTING, TYPING = b"\x1b[?2004h", b"\x1b[?2004l"  # switch the terminal's marks around pasted text on and off
PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"
ESCAPE, END = "\x1b", "\x04"  # the two keys that close a question without an answer, which counts as no
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
    """One option of a question, from the permission engine or the view model."""

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
    """Reads the user's terminal, one key at a time.

    Silence is counted in reads of the keyboard, not by the clock, so that a blocked process counts none.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] = []  # the terminal's settings between questions
        self._is_gone = False
        self._is_pasting = False
        self._was_stopped = False
        self._last = ""  # the end of the last input, which may be the beginning of a mark

    @classmethod
    def of(cls, fd: int) -> "Keyboard | None":
        """The keyboard of a descriptor's terminal, opened separately so that other readers are not affected."""
        try:
            return cls(os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:  # a terminal without a name, as in some containers
            return None

    def close(self) -> None:
        os.close(self._fd)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Read keys as they are pressed, without echo; signals still work."""
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
        """Wait until there was no input for this long; drop the input meanwhile."""
        quiet = 0.0
        while not self._is_gone and (quiet < seconds or self._is_pasting):
            quiet = 0.0 if await self._next() else quiet + TICK
            if self._is_pasting and quiet >= BROKEN_OFF:
                self._is_pasting, quiet = False, 0.0

    async def key(self) -> str:
        """The next key that is pressed alone; empty if other input came, after which silence is needed again."""
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
        """All input since the last read."""
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
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone, which `_next` notices
            tty.setcbreak(self._fd)  # which drops text that was typed ahead
            if os.environ.get("TERM") != "dumb":
                os.write(self._fd, PASTING)

    def _give_back(self) -> None:
        with contextlib.suppress(termios.error, OSError):
            if os.environ.get("TERM") != "dumb":
                os.write(self._fd, TYPING)
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._before)

    def _stop(self) -> None:
        """Stop on Ctrl-Z: restore the terminal for the shell, then stop so that it can continue this process."""
        loop = asyncio.get_running_loop()
        self._give_back()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._go_on()

    def _go_on(self) -> None:
        """Set up the terminal again after this process was continued: another program may have changed it."""
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self._fd) == os.getpgrp():  # otherwise the system would stop us for changing it
                self._take()
        self._was_stopped = True


class KeyPrompt:
    """Asks the user at the terminal, one question at a time."""

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
