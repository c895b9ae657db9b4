"""Reads PNG pictures of eight bits without interlacing, for terminals that accept pixels but no files."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST = 1_500_000  # pixels
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by type: grey, RGB, palette, grey with alpha, RGB with alpha

Pixel = tuple[int, int, int]


class Pixels(NamedTuple):
    """A picture, row by row; transparent pixels are blended with white."""

    width: int
    height: int
    rows: Sequence[Sequence[Pixel]]


def pixels_of(data: bytes) -> Pixels | None:
    """The pixels of a PNG; None for other data, unsupported kinds and too many pixels."""
    try:
        return _read(data)
    except (struct.error, zlib.error, IndexError, KeyError, ValueError):
        return None


def _read(data: bytes) -> Pixels | None:
    if not data.startswith(SIGNATURE):
        return None
    parts = dict[bytes, bytes]()
    for name, part in _chunks(data):
        parts[name] = parts.get(name, b"") + part
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    if depth != 8 or interlaced or not 0 < width * height <= MOST:
        return None
    step = CHANNELS[kind]
    size = (width * step + 1) * height
    raw = zlib.decompressobj().decompress(parts[b"IDAT"], size)
    if len(raw) < size:
        return None
    palette = parts.get(b"PLTE", b"")
    rows = [[_pixel(line[at : at + step], kind, palette) for at in range(0, width * step, step)]
            for line in _unfiltered(raw, width * step, step)]  # fmt: skip
    return Pixels(width, height, rows)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        yield name, data[at + 8 : at + 8 + length]
        at += length + 12


def _unfiltered(raw: bytes, length: int, step: int) -> Iterator[bytes]:
    """The bytes of each row; a PNG stores them as differences from the bytes to the left and above."""
    above = bytes(length)
    for start in range(0, len(raw) - length, length + 1):
        kind, line = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for at in range(length) if kind else ():
            left = line[at - step] if at >= step else 0
            up = above[at]
            if kind == 1:
                told = left
            elif kind == 2:
                told = up
            elif kind == 3:
                told = (left + up) // 2
            else:
                told = _nearest(left, up, above[at - step] if at >= step else 0)
            line[at] = (line[at] + told) & 255
        above = bytes(line)
        yield above


def _nearest(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))


def _pixel(values: bytes, kind: int, palette: bytes) -> Pixel:
    if kind == 3:
        at = values[0] * 3
        return palette[at], palette[at + 1], palette[at + 2]
    red, green, blue = values[:3] if kind in (2, 6) else (values[0],) * 3
    if kind in (0, 2):
        return red, green, blue
    share = values[-1] / 255
    return tuple(round(each * share + 255 * (1 - share)) for each in (red, green, blue))  # type: ignore[return-value]
