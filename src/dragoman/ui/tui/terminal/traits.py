"""Traits of the user's terminal: whether its background is light, and how it shows pictures."""

import os
import re
import select
import time
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ....foundation.unix import fcntl, termios, tty

PATIENCE = 2.0  # seconds; every terminal answers the second query, so this limit is for slow connections
ASKED = b"\x1b]11;?\x1b\\\x1b[c"  # queries of the background colour and of the terminal's type
_COLOUR = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_ANSWER = re.compile(rb"\x1b\[\?([0-9;]*)c")
SIXEL = "4"

Graphics = Literal["kitty", "iterm2", "sixel", ""]


class TerminalTraits(NamedTuple):
    """The known traits of a terminal."""

    is_light: bool = False
    graphics: Graphics = ""  # how the terminal shows pictures


def traits_of_terminal(environment: Mapping[str, str] = os.environ) -> TerminalTraits:
    """Query the terminal of this process; the environment supplies missing answers."""
    told = _answers() if environment.get("TERM") not in (None, "dumb") else b""
    is_light = _is_light(told)
    if is_light is None:
        is_light = environment.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    answer = _ANSWER.search(told)
    has_sixel = answer is not None and SIXEL in answer[1].decode().split(";")
    return TerminalTraits(is_light, _graphics(environment) or ("sixel" if has_sixel else ""))


def _graphics(environment: Mapping[str, str]) -> Graphics:
    """How the environment's terminal shows pictures; empty inside tmux or screen, which hide the terminal."""
    if environment.get("TMUX") or environment.get("STY"):
        return ""
    if environment.get("KITTY_WINDOW_ID") or environment.get("TERM") in ("xterm-kitty", "xterm-ghostty"):
        return "kitty"
    return "iterm2" if environment.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm") else ""


def _is_light(told: bytes) -> bool | None:
    if (colour := _COLOUR.search(told)) is None:
        return None
    red, green, blue = (int(part, 16) / ((1 << 4 * len(part)) - 1) for part in colour.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5


def _answers() -> bytes:
    """The answers of the terminal; empty without a terminal, or if typed keys are waiting and would be lost."""
    try:
        there = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        waiting = fcntl.ioctl(there, termios.FIONREAD, b"\0\0\0\0")
        return b"" if any(waiting) else _asked(there)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(there)


def _asked(there: int) -> bytes:
    before, told = termios.tcgetattr(there), b""
    end = time.monotonic() + PATIENCE
    try:
        tty.setcbreak(there)
        os.write(there, ASKED)
        while not _ANSWER.search(told) and (left := end - time.monotonic()) > 0:
            if select.select([there], [], [], left)[0]:
                told += os.read(there, 1024)
    finally:
        termios.tcsetattr(there, termios.TCSANOW, before)
    return told
