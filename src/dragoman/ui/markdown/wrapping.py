"""Wraps lines between words at the terminal's width, while the words still arrive."""

import re
from itertools import groupby
from operator import itemgetter

from ...foundation.columns import width
from ..layout import broken
from ..style import Style
from .inline import Span

_PIECES = re.compile(r"[ \t]+|[^ \t]+")


class Wrapper:
    """Writes spans into lines; further lines are indented to the start of the first one's text."""

    def __init__(self, style: Style, base: tuple[str, ...]) -> None:
        self._style, self._base = style, base
        self.columns = 80
        self._out: list[tuple[str, tuple[str, ...] | None]] = []  # None: already laid out and styled
        self._hanging = ""  # the beginning of further lines
        self._hanging_width = 0
        self._at = 0  # the column
        self._is_begun = False  # whether the line has a word
        self._word: list[Span] = []  # a word that waits for its end, to see whether it fits
        self._word_width = 0
        self._blanks: list[Span] = []  # blanks before the word; dropped at a line break
        self._is_too_long = False  # whether the word is wider than a line: the terminal breaks it

    def begin(self, first: str, first_width: int, hanging: str, hanging_width: int) -> None:
        """Begin a line with a fixed text; further lines begin with `hanging`."""
        self._out.append((first, None))
        self._hanging, self._hanging_width = hanging, hanging_width
        self._at, self._is_begun = first_width, False

    def add(self, spans: list[Span]) -> None:
        for text, styles in spans:
            text = f"`{text}`" if "code" in styles and not self._style.colours else text
            for piece in _PIECES.findall(text):
                self._add_blanks(piece, styles) if piece[0] in " \t" else self._add_word(piece, styles)

    def put_line(self, line: str) -> None:
        """A line that is laid out already."""
        self._out.append((f"{line}\n", None))
        self._at = 0

    def put_code(self, text: str) -> None:
        """Add a part of a line that is not broken between words."""
        self._out.append((text, ("code",)))

    def end(self) -> None:
        """End the line."""
        self._flush_word()
        self._blanks.clear()
        self._out.append(("\n", None))
        self._at = 0

    def tail(self, more: str) -> str:
        """The waiting word and undecided text after it, as far as they fit in the line."""
        words = "".join(text for text, _ in (*self._blanks, *self._word)) + more
        room = self.columns - self._at
        return words if width(words) < room else broken(words, max(room - 1, 1))[0]

    def take(self) -> str:
        """The text that can be shown by now."""
        shown = ""
        for styles, run in groupby(self._out, key=itemgetter(1)):
            text = "".join(map(itemgetter(0), run))
            shown += text if styles is None else self.dressed(text, styles)
        self._out.clear()
        return shown

    def dressed(self, text: str, styles: tuple[str, ...]) -> str:
        """Text in its styles."""
        names = dict.fromkeys("cyan" if name == "code" else name for name in (*self._base, *styles))
        return self._style(text, *names)

    def _add_blanks(self, blanks: str, styles: tuple[str, ...]) -> None:
        self._flush_word()
        self._blanks.append((blanks.replace("\t", "    "), styles))

    def _add_word(self, piece: str, styles: tuple[str, ...]) -> None:
        room = max(self.columns - self._hanging_width, 1)
        if not self._is_too_long and self._word_width + width(piece) <= room:
            self._lengthen_word(piece, styles)
            return
        for char in piece:  # so that the sizes of the chunks do not matter
            if self._is_too_long:
                self._put(char, styles)
                continue
            self._lengthen_word(char, styles)
            if self._word_width > room:
                self._flush_word()
                self._is_too_long = True

    def _lengthen_word(self, piece: str, styles: tuple[str, ...]) -> None:
        if self._word and self._word[-1][1] == styles:
            self._word[-1] = (self._word[-1][0] + piece, styles)
        else:
            self._word.append((piece, styles))
        self._word_width += width(piece)
        blanks = sum(len(text) for text, _ in self._blanks)
        if self._is_begun and self._at + blanks + self._word_width > self.columns:
            self._out.append((f"\n{self._hanging}", None))
            self._at, self._is_begun = self._hanging_width, False
            self._blanks.clear()

    def _flush_word(self) -> None:
        self._is_too_long = False
        if not self._word:
            return
        for text, styles in (*self._blanks, *self._word):
            self._put(text, styles)
        self._word, self._word_width, self._is_begun = [], 0, True
        self._blanks.clear()

    def _put(self, text: str, styles: tuple[str, ...]) -> None:
        self._out.append((text, styles))
        self._at += width(text)
        if self._at > self.columns:
            self._at = self._at % self.columns or self.columns
