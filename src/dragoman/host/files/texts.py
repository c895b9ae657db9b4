"""Decodes text, a window of lines at a time, in bounded memory and without changing a character.

A line ends with a line feed; a carriage return before it, and a byte order mark at the start, are part of the text.
"""

import codecs
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from .errors import FileRefused

MAX_TEXT = 10 * 1024 * 1024  # bytes of UTF-8 in one answer

_ENCODINGS = frozenset(
    [
        *["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii"],
        *[f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))],
        *[f"cp{page}" for page in (437, 850, 852, 866, 874, 932, 949, 950, *range(1250, 1259))],
        *["koi8-r", "koi8-u", "mac-roman", "shift_jis", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030"],
        *["big5", "euc_kr"],
    ]
)
_MARKED = {  # encodings that a byte order mark at the start selects
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}


class Window(Struct, frozen=True):
    """Some lines of a text."""

    content: str
    encoding: str
    total_lines: int | None  # of the whole text, if they were counted
    truncated: bool  # one answer could not hold all


def encoding_named(name: str | None) -> str:
    """Python's name of an encoding; UTF-8 by default."""
    if name is None:
        return "utf-8"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}", name):
        raise FileRefused("encoding")
    try:
        found = codecs.lookup(name).name
    except LookupError as exc:
        raise FileRefused("encoding") from exc
    if found not in _ENCODINGS:
        raise FileRefused("encoding")
    return found


def encode(text: str, encoding: str) -> bytes:
    """The bytes of a text; they have a byte order mark only if the text or the encoding has one."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as exc:
        raise FileRefused("encoding") from exc


def text_of(data: bytes, encoding: str | None = None) -> str:
    """The decoded text; refused if the bytes are not text."""
    return "".join(decode([data], encoding_named(encoding))[1])


def decode(chunks: Iterable[bytes], encoding: str) -> tuple[str, Iterator[str]]:
    """The actual encoding, then the text piece by piece; refused if it is not text."""
    chunks = iter(chunks)
    head = next(chunks, b"")
    if head and (marks := _MARKED.get(encoding)):
        for mark, marked in marks.items():
            if head.startswith(mark):
                return marked, _decoded(head, chunks, marked)
        raise FileRefused("encoding")
    return encoding, _decoded(head, chunks, encoding)


def _decoded(head: bytes, chunks: Iterator[bytes], encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    chunk = head
    try:
        while chunk:
            text = decoder.decode(chunk)
            if "\0" in text:
                raise FileRefused("binary")
            yield text
            chunk = next(chunks, b"")
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as exc:
        raise FileRefused("binary" if b"\0" in chunk else "encoding") from exc


def window(
    pieces: Iterable[str],
    encoding: str,
    *,
    start: int = 1,
    stop: int | None = None,
    counting: bool = False,
    cutting: bool = False,
) -> Window:
    """Lines `start` to `stop` of a text, both counted from 1 and both included.

    Text beyond `MAX_TEXT` is refused, or left out if `cutting`.  Without `counting`, nothing after the window
    is read.
    """
    kept: list[str] = []
    room = MAX_TEXT
    line, last = 1, "\n"
    truncated = False
    is_over = stop is not None and stop < start
    for piece in filter(None, pieces):
        newlines = piece.count("\n")
        if not is_over and line + newlines >= start:
            begin = _after_lines(piece, start - line)
            end = len(piece)
            if stop is not None and line + newlines > stop:
                end, is_over = _after_lines(piece, stop - line + 1), True
            part = piece[begin:end]
            room -= len(part) if part.isascii() else len(encode(part, "utf-8"))
            if room < 0:
                if not cutting:
                    raise FileRefused("too_large")
                part = part.encode()[:room].decode(errors="ignore")
                truncated = is_over = True
            kept.append(part)
        line, last = line + newlines, piece[-1]
        if is_over and not counting:
            break
    total = line - (last == "\n") if counting else None
    return Window("".join(kept), encoding, total, truncated)


def _after_lines(text: str, count: int) -> int:
    """Where the line after the first `count` ones starts."""
    at = 0
    for _ in range(count):
        at = text.index("\n", at) + 1
    return at
