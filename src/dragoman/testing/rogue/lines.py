"""Faults of the bytes: lines that are too long, not messages, not JSON, or divided into pieces."""

import json
import sys

from .agent import Rogue

LONG_LINE = 563_170  # bytes; the longest line seen in real traffic


class LongLine(Rogue):
    """Sends one line of half a megabyte."""

    def say(self, text: str) -> None:
        super().say(text.ljust(LONG_LINE, "x"))


class SendsNoise(Rogue):
    """Writes lines that are not messages between its messages."""

    LINES = (
        b"Loading model...",
        b'{"id":1,"level":"info"}',
        b'{"id":2,"level":"info","result":{"stopReason":"refusal"}}',
        b'{"id":3,"result":{"stopReason":"refusal"},"time":5}',
        b"42",
        b'"text"',
        b"null",
        b"[]",
        b"\x1b[31mred\x1b[0m",
        b"",
        b"\r",
    )

    def write(self, data: bytes) -> None:
        noise = b"\n".join(self.LINES) + b"\n"
        super().write(noise + data + noise)


class BadJson(Rogue):
    """Writes broken JSON, bytes that are not UTF-8, and JSON nested too deeply between its messages."""

    LINES = (
        b'{"jsonrpc":"2.0","id":1,"resu',
        b'{"jsonrpc":"2.0","id":1000000,"result":{"protocolVersion":1}} trailing',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":NaN}',
    )

    def write(self, data: bytes) -> None:
        super().write(b"\n".join(self.LINES) + b"\n" + data)


class Deaf(Rogue):
    """Does not answer lines that are not JSON, nor unknown requests."""

    def run(self) -> None:
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("method") in self.STEPS:
                self.hear(message)


class CarriageReturns(Rogue):
    """Ends its lines with CRLF, and starts with a byte order mark."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        super().write(b"\xef\xbb\xbf")

    def write(self, data: bytes) -> None:
        super().write(data.replace(b"\n", b"\r\n"))


class Dribble(Rogue):
    """Sends each byte by itself."""

    def write(self, data: bytes) -> None:
        for index in range(len(data)):
            super().write(data[index : index + 1])
