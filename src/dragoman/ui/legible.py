"""An agent's text, safe for a terminal: no character acts on the terminal, and none is invisible.

`host.display` escapes every invisible character, as approvals need it.  Prose needs less: its blanks stay blanks,
and the joiners of scripts and emoji stay between the characters they join.
"""

import re

from ..foundation.columns import width
from ..host.display import visible

CARRIED = 8  # earlier characters that are read, so that an accent at the start of a chunk finds its letter
LONGEST = 1 << 20  # characters of a word; a frame has room for sixteen of them
LONGEST_LINE = 1 << 16  # characters a command may print before they are broken into a line

_WORDS = re.compile(r"[^ \n\t]+")
# Blanks, which are visible by their width; ZWNJ and ZWJ between two characters of a script or two emoji; the
# selector that turns a character into an emoji.
_HARMLESS = re.compile(
    "([\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
    "|(?<=[^\x00-\u00a0])[\u200c\u200d](?=[^\x00-\u00a0])"
    "|(?<=[0-9#*\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f\u20e3?)"
)
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def legible(text: str) -> str:
    """The text with line breaks, tabs and blanks unchanged, and all other invisible characters escaped."""
    return _WORDS.sub(lambda word: _word(word[0]), text)


def one_line(text: str, columns: int | None = None) -> str:
    """The text as one line of at most this many columns."""
    shown = legible(" ".join(text.split()))
    if columns is None or width(shown) <= columns:
        return shown
    while shown and width(shown) > columns - 1:
        shown = shown[: min(len(shown) - 1, columns)]
    return f"{shown}…"


class ProseStream:
    """Prose in chunks: as far as possible, the shown text does not depend on where the chunks were cut."""

    def __init__(self) -> None:
        self._carried = ""
        self._held = ""  # a joiner that waits for the next character

    def show(self, chunk: str) -> str:
        chunk, self._held = self._held + chunk, ""
        if chunk.endswith(("\u200c", "\u200d")):
            chunk, self._held = chunk[:-1], chunk[-1]
        before, whole = legible(self._carried), legible(self._carried + chunk)
        self._carried = (self._carried + chunk)[-CARRIED:]
        return whole[len(before) :] if whole.startswith(before) else legible(chunk)

    def end(self) -> str:
        """The text held back, at the end."""
        held, self._held = self._held, ""
        return legible(held)


class CommandLines:
    """A command's output, line by line and without colours; an overwritten line appears in its last state."""

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
        """The last, incomplete line, if there is one."""
        rest, self._rest = self._rest, ""
        return [settled_line(rest)] if rest else []


def settled_line(line: str) -> str:
    """A line as a terminal finally shows it: without colours, and with overwritten parts in their last state."""
    return legible(_SEQUENCES.sub("", line).rstrip("\r").rpartition("\r")[2])


def _word(word: str) -> str:
    if word.isascii() and word.isprintable():
        return visible(word, limit=LONGEST)
    parts = _HARMLESS.split(word)
    return "".join(part if number % 2 else visible(part, limit=LONGEST) for number, part in enumerate(parts))
