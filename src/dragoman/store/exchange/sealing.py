"""The last line of an export: how many lines there are before it, and their checksum."""

import hashlib

import msgspec
from msgspec import Struct

START = b'{"lines":'  # how such a line begins


class ExportSeal(Struct):
    """The last line of an exported session."""

    lines: int
    sha256: str


class Sealing:
    """Counts lines and returns their seal at the end."""

    def __init__(self) -> None:
        self._digest, self._count = hashlib.sha256(), 0

    def add(self, line: bytes) -> bytes:
        """Count a line; returns it."""
        self._digest.update(line)
        self._count += 1
        return line

    def seal(self) -> ExportSeal:
        return ExportSeal(self._count, self._digest.hexdigest())

    def line(self) -> bytes:
        return msgspec.json.encode(self.seal())
