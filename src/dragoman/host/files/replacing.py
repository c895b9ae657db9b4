"""Replaces one part of a text in the bytes of the file itself.

Many encodings can write one character in several ways or have states between characters: decoding and encoding a
whole text would change bytes outside the part.  So only the bytes of the part are replaced, and the result is
decoded to check it.
"""

import codecs
import re

from .errors import FileRefused
from .texts import decode, encode

_STEP = 4096  # bytes decoded at a time while looking for a character
_ASCII = b"\x1b(B"
_ESCAPES = re.compile(rb"\x1b(?:\([BJ]|\$[@B])")  # of iso2022_jp: they switch the meaning of the following bytes


def replaced(data: bytes, encoding: str, old: str, new: str) -> bytes:
    """The bytes with one text replaced, which must occur exactly once, counting overlaps."""
    used, pieces = decode([data], encoding)
    text = "".join(pieces)
    at = text.find(old)
    if at < 0 or text.find(old, at + 1) >= 0:
        raise FileRefused("no_match")
    if not data:
        return encode(new, used)
    start, end = _offset(data, used, at), _offset(data, used, at + len(old))
    middle = encode(new, used)
    if used == "iso2022_jp":
        middle = _escaped(data, start, end, middle)
    result = data[:start] + middle + data[end:]
    if "".join(decode([result], encoding)[1]) != text[:at] + new + text[at + len(old) :]:
        raise FileRefused("encoding")
    return result


def _offset(data: bytes, encoding: str, index: int) -> int:
    """The number of bytes after which this many characters are decoded."""
    decoder = codecs.getincrementaldecoder(encoding)()
    at = count = 0
    step = _STEP
    while count < index:
        state = decoder.getstate()
        size = len(decoder.decode(data[at : at + step]))
        if step > 1 and count + size >= index:  # it is in here: byte by byte
            decoder.setstate(state)
            step = 1
            continue
        count += size
        at += step
    return at


def _escaped(data: bytes, start: int, end: int, middle: bytes) -> bytes:
    """Bytes that begin and end in ASCII, between others that may not."""
    before, after = ([_ASCII, *_ESCAPES.findall(data[:at])][-1] for at in (start, end))
    if before == after and not middle:
        return b""
    return (b"" if before == _ASCII else _ASCII) + middle + (b"" if after == _ASCII else after)
