"""What an agent says, as a terminal can show it: nothing in it acts on the terminal, nothing in it hides.

`host.display` writes out whatever cannot be seen, as an approval needs it.  Prose needs a little less: its blanks
may stay blanks, and the joiners that scripts and pictures are made with may stay between the letters they join.
"""

import re

from ..foundation.columns import width
from ..host.display import visible

CARRIED = 8  # characters looked back at, so that an accent at the start of a chunk finds its letter
LONGEST = 1 << 20  # characters of a word; a frame has room for sixteen of them
LONGEST_LINE = 1 << 16  # characters a command may print before a line is made of them

_WORDS = re.compile(r"[^ \n\t]+")
# Blanks, which have their width to be seen by; ZWNJ and ZWJ between two characters of a script or two pictures; the
# selector that makes a picture of a character.
_HARMLESS = re.compile(
    "([\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
    "|(?<=[^\x00-\u00a0])[\u200c\u200d](?=[^\x00-\u00a0])"
    "|(?<=[0-9#*\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f\u20e3?)"
)
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def legible(text: str) -> str:
    """The text with line breaks, tabs and blanks as they are, and everything else that is invisible written out."""
    return _WORDS.sub(lambda word: _word(word[0]), text)


def one_line(text: str, columns: int | None = None) -> str:
    """The text as one line that is at most so many columns wide."""
    shown = legible(" ".join(text.split()))
    if columns is None or width(shown) <= columns:
        return shown
    while shown and width(shown) > columns - 1:
        shown = shown[: min(len(shown) - 1, columns)]
    return f"{shown}…"


class ProseStream:
    """Prose that comes in chunks: what is shown does not depend on where they were cut, as far as can be."""

    def __init__(self) -> None:
        self._carried = ""
        self._held = ""  # a joiner that waits for what it joins

    def show(self, chunk: str) -> str:
        chunk, self._held = self._held + chunk, ""
        if chunk.endswith(("\u200c", "\u200d")):
            chunk, self._held = chunk[:-1], chunk[-1]
        before, whole = legible(self._carried), legible(self._carried + chunk)
        self._carried = (self._carried + chunk)[-CARRIED:]
        return whole[len(before) :] if whole.startswith(before) else legible(chunk)

    def end(self) -> str:
        """What was held back though nothing more comes."""
        held, self._held = self._held, ""
        return legible(held)


class CommandLines:
    """What a command prints, line by line and without its colours; of a line it wrote over, the last state."""

    def __init__(self) -> None:
        self._rest = ""

    def add(self, text: str) -> list[str]:
        """The lines that are complete now."""
        *complete, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > LONGEST_LINE:
            complete.append(self._rest)
            self._rest = ""
        return [settled_line(line) for line in complete]

    def end(self) -> list[str]:
        """The line that never was completed, if there is one."""
        rest, self._rest = self._rest, ""
        return [settled_line(rest)] if rest else []


def settled_line(line: str) -> str:
    """A line as a terminal would show it in the end: without its colours, and of what was written over the last."""
    return legible(_SEQUENCES.sub("", line).rstrip("\r").rpartition("\r")[2])


def _word(word: str) -> str:
    if word.isascii() and word.isprintable():
        return visible(word, limit=LONGEST)
    parts = _HARMLESS.split(word)
    return "".join(part if number % 2 else visible(part, limit=LONGEST) for number, part in enumerate(parts))
