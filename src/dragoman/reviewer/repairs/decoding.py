"""Bytes of a file as text: UTF-8, or the encoding that the file itself names in a comment at its top (PEP 263)."""

import codecs
import re
from functools import cache

from msgspec import Struct

_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_NO_CODE = re.compile(
    rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)"
)  # a first line that another may follow with the name


class Decoded(Struct, frozen=True):
    """A text, and the encoding of its bytes."""

    text: str
    encoding: str = ""  # that the file names, where it is not UTF-8
    error: int = 0  # the first line that cannot be decoded; the text has replacement characters


def decoded(data: bytes) -> Decoded:
    """The text of a file; the encoding it names counts only where the bytes can be made from the text again."""
    try:
        return Decoded(data.decode())
    except UnicodeDecodeError as exc:
        broken = Decoded(data.decode(errors="replace"), error=data.count(b"\n", 0, exc.start) + 1)
    encoding = _named(data)
    if not encoding:
        return broken
    try:
        text = data.decode(encoding)
        return Decoded(text, encoding) if text.encode(encoding) == data else broken
    except UnicodeError:
        return broken


def _named(data: bytes) -> str:
    """The encoding that a comment in the first two lines names; nothing if it cannot be one of a text like this."""
    first = _NO_CODE.match(data)
    found = _COOKIE.match(data) or (first and _COOKIE.match(data, first.end()))
    name = found[1].decode("ascii", "replace") if found else ""
    return name if name and _keeps_ascii(name) else ""


@cache
def _keeps_ascii(name: str) -> bool:
    """Whether an encoding is one that has ASCII as it is: else the comment could not have been read."""
    try:
        if codecs.lookup(name).name in ("idna", "punycode"):  # of names, not of texts
            return False
        return all(bytes([code]).decode(name) == chr(code) for code in range(128))
    except (LookupError, UnicodeError):
        return False
