"""Questions answered with one key.

A key counts only when it was pressed after the question could be read: what was typed before is thrown away, and so
is everything in the first half second.  Enter, and any key that stands for nothing, is never an answer.
"""

import asyncio
import contextlib
import os
import termios
import tty
from collections.abc import Iterator

from ...host.permissions import Option, Question
from .screen import Screen

ARMING = 0.5  # seconds in which no key counts
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


def keys_for(question: Question) -> dict[str, Option]:
    """A key for each option: its own letter, a number where the letter is taken."""
    keys: dict[str, Option] = {}
    for option in question.options:
        letter = DENY_TURN if option.id == "reject_turn" else LETTERS.get((option.allows, option.scope), "")
        spare = next(key for key in SPARE if key not in keys)
        keys[letter if letter and letter not in keys else spare] = option
    return keys


class Keyboard:
    """The terminal the user sits at, one key at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._keys: asyncio.Queue[str] = asyncio.Queue()

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
        before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        loop.add_reader(self._fd, self._read)
        try:
            self.forget()
            yield
        finally:
            loop.remove_reader(self._fd)
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._fd, termios.TCSAFLUSH, before)

    def forget(self) -> None:
        """Throw away what was typed so far."""
        termios.tcflush(self._fd, termios.TCIFLUSH)
        self._keys = asyncio.Queue()

    async def key(self) -> str:
        """The next key; several characters when it sent, or somebody pasted, as many."""
        return await self._keys.get()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1024)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            data = b""
        self._keys.put_nowait(data.decode(errors="replace") or END)
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)


class Desk:
    """Where the user is asked; one question at a time has it."""

    def __init__(self, screen: Screen, keyboard: Keyboard, arming: float = ARMING) -> None:
        self._screen, self._keyboard, self._arming = screen, keyboard, arming

    async def ask(self, question: Question) -> str | None:
        """The id of the option the user chose; None when they closed the question."""
        keys = keys_for(question)
        with self._keyboard.listening():
            self._screen.question(question, keys)
            try:
                await asyncio.sleep(self._arming)
                self._keyboard.forget()
                self._screen.prompt("Press a key:")
                option = await self._choice(keys)
            except asyncio.CancelledError:
                self._screen.answered("withdrawn")
                raise
        self._screen.answered(option.label if option else "No answer, so no")
        return option.id if option else None

    async def _choice(self, keys: dict[str, Option]) -> Option | None:
        while (key := await self._keyboard.key()) not in (ESCAPE, END):
            if option := keys.get(key):
                return option
            self._screen.prompt(f"Press one of {', '.join(keys)}:", again=True)
        return None
