"""Places in texts: lines and columns as people count them, and as language servers do."""

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from ..foundation.documents import Document, document, members, number, string

Encoding = str  # "utf-8", "utf-16" or "utf-32"
ENCODINGS = ("utf-16", "utf-8", "utf-32")
_BREAKS = re.compile(r"\r\n|\r|\n")  # the only ones that the protocol knows


class TextPlace(Struct, frozen=True):
    """A place in a file, counted from 1 as people do."""

    path: str
    line: int
    column: int


def uri_of(path: str) -> str:
    """The URI of a file."""
    return "file://" + quote(path, safe="/")


def path_of(uri: str) -> str | None:
    """The path of a file's URI; None for any other URI."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in (path := unquote(parts.path)):
        return None
    return path or None


def is_range(value: object) -> bool:
    """Whether a value is a Range, as far as it is used here."""
    places = [members(members(value).get(name)) for name in ("start", "end")]
    numbers = [place.get(name) for place in places for name in ("line", "character")]
    return all(isinstance(each, int) and each >= 0 for each in numbers)


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends, as the protocol counts them: a form feed, for example, ends none."""
    lines = CountedLines(text, "utf-32")
    ends = [*lines.starts[1:], len(text)]
    return [text[start:end] for start, end in zip(lines.starts, ends, strict=True) if start < end]


class CountedLines:
    """A text by its lines, to find places in it."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self._encoding = encoding
        self.starts = [0, *(found.end() for found in _BREAKS.finditer(text))]

    def line(self, number: int) -> str:
        """A line, counted from 0, without its end; "" beyond the text."""
        if number >= len(self.starts):
            return ""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def position(self, line: int, column: int) -> Document:
        """A place that is counted from 0 in characters, as the server counts it."""
        return {"line": line, "character": self._units(self.line(line)[:column])}

    def column(self, position: Document) -> int:
        """The character in its line, counted from 0."""
        line, units = self.line(int(number(position["line"]))), int(number(position["character"]))
        if line.isascii() or self._encoding == "utf-32":
            return max(0, min(units, len(line)))
        if self._encoding == "utf-16":  # half a pair of surrogates counts as a letter
            begin = line.encode("utf-16-le", "surrogatepass")[: max(0, units) * 2]
            return len(begin.decode("utf-16-le", "surrogatepass"))
        passed = 0
        for index, letter in enumerate(line):
            if passed >= units:
                return index
            passed += self._units(letter)
        return len(line)

    def offset(self, position: Document) -> int:
        """Where in the text a position is; beyond the end it is the end."""
        line = int(number(position["line"]))
        if line >= len(self.starts):
            return len(self.text)
        return self.starts[max(0, line)] + self.column(position)

    def _units(self, text: str) -> int:
        if text.isascii() or self._encoding == "utf-32":
            return len(text)
        if self._encoding == "utf-8":
            return len(text.encode(errors="surrogatepass"))
        return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def edited(text: str, edits: Sequence[Document], encoding: Encoding) -> str:
    """A text after TextEdits; raises ValueError when they overlap."""
    lines = CountedLines(text, encoding)
    found = []
    for index, edit in enumerate(edits):
        range = document(edit["range"])
        start, end = (lines.offset(document(range[name])) for name in ("start", "end"))
        found.append((start, index, end, string(edit["newText"])))
    pieces, at = [], 0
    for start, _, end, new in sorted(found):
        if start < at or end < start:
            raise ValueError("edits overlap")
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])
