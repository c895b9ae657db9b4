"""Decode the bytes of a file: UTF-8, or the encoding that a comment at the top of the file names (PEP 263)."""

import codecs
import re
from functools import cache

from msgspec import Struct

_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_NO_CODE = re.compile(
    rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)"
)  # a first line after which the second may name the encoding


class Decoded(Struct, frozen=True):
    """A text, and the encoding of its bytes."""

    text: str
    encoding: str = ""  # the encoding that the file names, if it is not UTF-8
    error: int = 0  # the first line that cannot be decoded; the text has replacement characters


def decoded(data: bytes) -> Decoded:
    """The text of a file; the encoding that it names is used only if the bytes can be restored from the text."""
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
    """The encoding that a comment in the first two lines names; empty if it cannot be the file's."""
    first = _NO_CODE.match(data)
    found = _COOKIE.match(data) or (first and _COOKIE.match(data, first.end()))
    name = found[1].decode("ascii", "replace") if found else ""
    return name if name and _keeps_ascii(name) else ""


@cache
def _keeps_ascii(name: str) -> bool:
    """Whether an encoding contains ASCII unchanged; otherwise the comment could not have been read."""
    try:
        if codecs.lookup(name).name in ("idna", "punycode"):  # an encoding of names, not of texts
            return False
        return all(bytes([code]).decode(name) == chr(code) for code in range(128))
    except (LookupError, UnicodeError):
        return False
