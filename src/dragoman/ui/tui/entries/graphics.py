"""Encodes pictures as terminal sequences: those of kitty and iTerm2, and sixels."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from itertools import groupby

from .... import schema as s
from ..terminal.traits import Graphics
from .png import SIGNATURE, Pixels, pixels_of

PIECE = 4096  # characters of one kitty sequence
WIDEST, HIGHEST = 640, 420  # pixels of a sixel picture
INLINE = ("image/png", "image/jpeg", "image/gif")  # types that iTerm2 shows


def drawing(block: s.ImageContent | s.AudioContent, graphics: Graphics) -> bytes | None:
    """The bytes that show a picture; None if the terminal cannot show it."""
    if not graphics or not isinstance(block, s.ImageContent):
        return None
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    if graphics == "iterm2":
        return _inline(data) if block.mime_type.lower() in INLINE else None
    if graphics == "kitty":
        return b"".join(_transmitted(data)) if data.startswith(SIGNATURE) else None
    pixels = pixels_of(data)
    return sixels(pixels).encode() if pixels else None


def _inline(data: bytes) -> bytes:
    told = f"\x1b]1337;File=inline=1;size={len(data)};height=80%;preserveAspectRatio=1:"
    return told.encode() + base64.b64encode(data) + b"\x07"


def _transmitted(data: bytes) -> Iterator[bytes]:
    """The file in kitty sequences, which tell the terminal not to answer."""
    encoded = base64.b64encode(data)
    for at in range(0, len(encoded), PIECE):
        head = b"a=T,f=100,q=2," if at == 0 else b""
        more = int(at + PIECE < len(encoded))
        yield b"\x1b_G%sm=%d;%s\x1b\\" % (head, more, encoded[at : at + PIECE])


def sixels(pixels: Pixels) -> str:
    """The picture in 216 colours, reduced until it fits."""
    step = max(-(-pixels.width // WIDEST), -(-pixels.height // HIGHEST), 1)
    rows = [[_colour(pixel) for pixel in row[::step]] for row in pixels.rows[::step]]
    colours = sorted({colour for row in rows for colour in row})
    named = "".join(f"#{c};2;{c // 36 * 20};{c // 6 % 6 * 20};{c % 6 * 20}" for c in colours)
    bands = [_band(rows[at : at + 6]) for at in range(0, len(rows), 6)]
    return f'\x1bP0;1q"1;1;{len(rows[0])};{len(rows)}{named}{"-".join(bands)}\x1b\\'


def _colour(pixel: tuple[int, int, int]) -> int:
    red, green, blue = ((each * 5 + 127) // 255 for each in pixel)
    return red * 36 + green * 6 + blue


def _band(rows: Sequence[Sequence[int]]) -> str:
    """Six rows of pixels: for each colour, the places where it occurs."""
    drawn = []
    for colour in sorted({each for row in rows for each in row}):
        bits = [sum(1 << at for at, row in enumerate(rows) if row[x] == colour) for x in range(len(rows[0]))]
        runs = [(chr(63 + bit), len(list(group))) for bit, group in groupby(bits)]
        drawn.append(
            f"#{colour}" + "".join(f"!{count}{sign}" if count > 3 else sign * count for sign, count in runs)
        )
    return "$".join(drawn)
