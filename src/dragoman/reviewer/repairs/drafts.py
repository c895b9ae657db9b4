"""A file while it is repaired: the replaced ranges of the original, and the unchanged rest."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from ..findings import Source
from .decoding import decoded

_LINE_END = re.compile(r"\r\n|\r|\n")


class ReplacedRange(NamedTuple):
    """Characters of a text, and their replacement."""

    start: int
    end: int
    content: str


class ByteRange(NamedTuple):
    """Bytes of a file, and their replacement."""

    start: int
    end: int
    content: bytes


class _Piece(NamedTuple):
    """A part of a draft: a range of the original, or a new text."""

    start: int
    end: int
    text: str | None = None

    @property
    def length(self) -> int:
        return self.end - self.start if self.text is None else len(self.text)


class RepairDraft:
    """A text made of pieces of the original and new pieces."""

    def __init__(self, original: str, pieces: Sequence[_Piece] | None = None) -> None:
        self.original = original
        self._pieces = [_Piece(0, len(original))] if pieces is None else pieces
        self._starts = list(accumulate((piece.length for piece in self._pieces), initial=0))
        parts = (original[p.start : p.end] if p.text is None else p.text for p in self._pieces)
        self.text = "".join(parts)

    def edited(self, ranges: Iterable[ReplacedRange]) -> "RepairDraft":
        """The draft with ranges of its text replaced; the ranges must not overlap."""
        pieces: list[_Piece] = []
        at = 0
        for start, end, content in sorted(ranges):
            pieces += self._between(at, start)
            pieces += [_Piece(self.origin(start), self.origin(start), content)] if content else []
            at = end
        return RepairDraft(self.original, [*pieces, *self._between(at, len(self.text))])

    def origin(self, offset: int) -> int:
        """The offset in the original of an offset in the text; inside a new piece, the place of its insertion."""
        if not self._pieces:
            return 0
        at = min(bisect_right(self._starts, offset) - 1, len(self._pieces) - 1)
        piece = self._pieces[at]
        return piece.start + (offset - self._starts[at] if piece.text is None else 0)

    def ranges(self) -> Iterator[ReplacedRange]:
        """The replaced ranges of the original, in order."""
        at, new = 0, ""
        for piece in (*self._pieces, _Piece(len(self.original), len(self.original))):
            if piece.text is not None:
                new += piece.text
                continue
            if new or piece.start > at:
                yield ReplacedRange(at, piece.start, new)
            at, new = piece.end, ""

    def _between(self, start: int, end: int) -> Iterator[_Piece]:
        at = max(bisect_right(self._starts, start) - 1, 0)
        while at < len(self._pieces) and self._starts[at] < end:
            piece, first = self._pieces[at], self._starts[at]
            low, high = max(start - first, 0), min(end - first, piece.length)
            if low < high and piece.text is None:
                yield _Piece(piece.start + low, piece.start + high)
            elif low < high:
                yield _Piece(piece.start, piece.end, (piece.text or "")[low:high])
            at += 1


def trimmed(text: str, start: int, end: int, content: str) -> ReplacedRange:
    """A range without the unchanged bytes at both of its ends."""
    old = text[start:end]
    head = _same(old, content)
    tail = _same(old[head:][::-1], content[head:][::-1])
    return ReplacedRange(start + head, end - tail, content[head : len(content) - tail])


def _same(one: str, other: str) -> int:
    """The length of the common beginning of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class Places:
    """Rows and columns as Ruff counts them: any line end ends a row, and a byte order mark has no column."""

    def __init__(self, text: str) -> None:
        self._end = len(text)
        self._starts = [int(text.startswith("\ufeff")), *(found.end() for found in _LINE_END.finditer(text))]

    def offset(self, place: tuple[int, int]) -> int:
        row, column = place
        start = self._starts[row - 1] if row <= len(self._starts) else self._end
        return min(start + column - 1, self._end)


class LineRange:
    """The lines that a range of a text touches; only line feeds end lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def touched(self, start: int, end: int) -> range:
        """The lines, from 1; a range that begins at a line's end begins in the next line, if it reaches it."""
        first, last = self._at(start), self._at(max(end - 1, start))
        begins_at_end = first < last and _LINE_END.match(self._text, start) is not None
        return range(first + begins_at_end, last + 1)

    def _at(self, offset: int) -> int:
        return bisect_right(self._starts, offset)


def in_bytes(source: Source, draft: RepairDraft) -> list[ByteRange] | None:
    """The byte ranges that a draft replaces; None if the encoding does not determine them."""
    ranges = list(draft.ranges())
    cuts = [0, *(cut for found in ranges for cut in (found.start, found.end)), len(source.text)]
    try:
        parts = [source.encoded(source.text[start:end]) for start, end in pairwise(cuts)]
        places = list(accumulate(map(len, parts)))
        found = [
            ByteRange(start, end, source.encoded(one.content))
            for one, start, end in zip(ranges, places[::2], places[1::2], strict=False)
        ]
    except UnicodeError:
        return None
    again = decoded(spliced(source.content, found))
    return found if again.text == draft.text and not again.error else None


def spliced(content: bytes, ranges: Sequence[ByteRange]) -> bytes:
    """A file with some ranges replaced; every other byte comes from the file itself."""
    ends = [0, *(found.end for found in ranges)]
    starts = [*(found.start for found in ranges), len(content)]
    kept = [content[end:start] for end, start in zip(ends, starts, strict=True)]
    new = [*(found.content for found in ranges), b""]
    return b"".join(part for pair in zip(kept, new, strict=True) for part in pair)
