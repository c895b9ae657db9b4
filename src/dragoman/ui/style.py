"""Colours for terminals."""

import os
from collections.abc import Mapping
from typing import TextIO

from .output import SafeOutput, marked

CODES = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "underline": 4,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}

UNLIMITED = 10_000


class Style:
    """Styles a text: `style("done", "green", "bold")`; without colours, it stays unchanged."""

    def __init__(self, colours: bool) -> None:
        self.colours = colours

    def __call__(self, words: str, *names: str) -> str:
        if not (self.colours and words and names):
            return words
        codes = ";".join(str(CODES[name]) for name in names)
        return marked(f"\x1b[{codes}m") + words + marked("\x1b[0m")

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> "Style":
        """A style with colours only on a terminal that can show them, and never if NO_COLOR is set."""
        return cls(is_terminal(stream, environ) and not environ.get("NO_COLOR"))


def is_terminal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream leads, through a `SafeOutput`, to a terminal that understands more than lines."""
    return isinstance(stream, SafeOutput) and stream.isatty() and environ.get("TERM") != "dumb"


def size_of(stream: TextIO) -> tuple[int, int]:
    """The columns and lines of a terminal; very many for anything else."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns = lines = 0
    return columns or UNLIMITED, lines or UNLIMITED


def is_same_file(one: TextIO, other: TextIO) -> bool:
    """Whether two streams end in the same pipe or file, so that their lines are mixed."""
    try:
        return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):
        return False
