"""A table of what may come over a WebSocket, and what has to follow from it, for either end.

A case is what is sent, as (opcode, data, options of `message`), and what comes back in the end: `PONGS` with what
they hold, the code the socket is `CLOSED` with, or `TAKEN` when a message got through.
"""

import json
import random

from .attacks import INITIALIZE

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
LIMIT = 100_000  # bytes of a message, at both ends under test
TAKEN, CLOSED, PONGS = "taken", "closed", "pongs"
PROTOCOL, NO_TEXT, TOO_LARGE = (CLOSED, 1002), (CLOSED, 1007), (CLOSED, 1009)
GOOD = (TEXT, INITIALIZE, {})


def text(data):
    return (TEXT, data, {})


def part(opcode, data):
    return (opcode, data, {"fin": False})


def closing(code, reason=b""):
    return (CLOSE, code.to_bytes(2, "big") + reason, {})


def padded(size):
    """A good message of so many bytes."""
    return INITIALIZE + b" " * (size - len(INITIALIZE))


def pieces(data, count, chance):
    """A message in so many frames, some of them empty."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(count - 1))
    ends = list(zip([0, *cuts], [*cuts, len(data)], strict=True))
    return [
        (CONTINUED if at else TEXT, data[first:last], {"fin": at == count - 1})
        for at, (first, last) in enumerate(ends)
    ]


def opcodes():
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        for data in (b"", b"x"):
            yield f"opcode {opcode} with {len(data)} bytes", [GOOD, (opcode, data, {})], PROTOCOL
        yield f"opcode {opcode} within a message", [part(TEXT, b"{"), (opcode, b"", {})], PROTOCOL
    for bits in range(1, 8):
        for opcode in (TEXT, BINARY, PING, PONG, CLOSE):
            yield f"reserved bits {bits} of opcode {opcode}", [(opcode, b"", {"rsv": bits})], PROTOCOL


def sizes():
    for size in (len(INITIALIZE), 125, 126, 127, 128, 65535, 65536, 65537, LIMIT):
        yield f"a text of {size} bytes", [text(padded(size))], (TAKEN, padded(size))
    for size in (LIMIT + 1, 2**32, 2**62):
        yield f"a text said to have {size} bytes", [(TEXT, b"", {"size": size})], TOO_LARGE
    yield "a message too large altogether", [part(TEXT, b" " * LIMIT), (CONTINUED, b"  ", {})], TOO_LARGE
    yield "a binary message too large", [(BINARY, b"", {"size": LIMIT + 1})], TOO_LARGE
    yield "a length of more than 63 bits", [(TEXT, b"", {"size": 2**63})], TOO_LARGE
    yield "binary messages", [(BINARY, b"\x00\xff", {}), (BINARY, b"", {}), GOOD], (TAKEN, INITIALIZE)


def pings():
    for size in (0, 1, 8, 125):
        yield f"a ping of {size} bytes", [(PING, b"\xfe" * size, {})], (PONGS, [b"\xfe" * size])
    yield "ten pings", [(PING, b"%d" % n, {}) for n in range(10)], (PONGS, [b"%d" % n for n in range(10)])
    yield "a pong nobody asked for", [(PONG, b"x", {}), (PONG, b"", {}), GOOD], (TAKEN, INITIALIZE)
    for opcode in (PING, PONG, CLOSE):
        yield f"opcode {opcode} of 126 bytes", [(opcode, b"\x03\xe8" + b"x" * 124, {})], PROTOCOL
        yield f"opcode {opcode} in pieces", [part(opcode, b""), (CONTINUED, b"", {})], PROTOCOL


def fragments():
    chance = random.Random(6455)
    for count in (2, 3, 7, 50):
        yield f"a text in {count} pieces", pieces(INITIALIZE, count, chance), (TAKEN, INITIALIZE)
    whole = pieces(INITIALIZE, 3, chance)
    between = [whole[0], (PING, b"p", {}), whole[1], (PONG, b"", {}), whole[2]]
    yield "a ping within a message", [whole[0], (PING, b"p", {})], (PONGS, [b"p"])
    yield "a message around a ping and a pong", between, (TAKEN, INITIALIZE)
    yield "a binary message in pieces", [part(BINARY, b"7"), (CONTINUED, b"\xff", {}), GOOD], (TAKEN, INITIALIZE)
    for opcode in (TEXT, BINARY):
        for fin in (True, False):
            wrong = (opcode, INITIALIZE, {"fin": fin})
            yield f"opcode {opcode}, {fin=}, within a message", [part(TEXT, b"{"), wrong], PROTOCOL
    for fin in (True, False):
        yield f"a continuation of nothing, {fin=}", [(CONTINUED, b"x", {"fin": fin})], PROTOCOL
        yield f"a continuation after the end, {fin=}", [*whole, (CONTINUED, b"x", {"fin": fin})], PROTOCOL
    yield (
        "nothing in pieces",
        [part(TEXT, b""), part(CONTINUED, b""), (CONTINUED, INITIALIZE, {})],
        (TAKEN, INITIALIZE),
    )


def closes():
    yield "a close that says nothing", [(CLOSE, b"", {})], (CLOSED, None)
    yield "a close of one byte", [(CLOSE, b"\x03", {})], PROTOCOL
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999):
        yield f"a close with code {code}", [closing(code, b"why")], (CLOSED, code)
    for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
        yield f"a close with code {code}, which is none", [closing(code)], PROTOCOL
    yield "the longest reason", [closing(1000, b"x" * 123)], (CLOSED, 1000)
    yield "a reason beyond ASCII", [closing(1000, "grüß".encode())], (CLOSED, 1000)
    yield "a reason that is no text", [closing(1000, b"\xff")], NO_TEXT
    yield "a close within a message", [part(TEXT, b"{"), closing(1000)], (CLOSED, 1002)
    yield "a message after the close", [closing(1000), GOOD, (PING, b"", {})], (CLOSED, 1000)


# Texts from Markus Kuhn's list of what decoders get wrong, by what is the matter with them.
NO_UTF8 = {
    "a lone continuation": [b"\x80", b"\xbf", b"\x80\xbf\x80", bytes(range(0x80, 0xC0))],
    "a lone start": [b"\xc3", b"\xc3 ", b"\xe2", b"\xe2\x82", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xf0\x9f\x98 "],
    "never a byte": [b"\xfe", b"\xff", b"\xfe\xfe\xff\xff", b"\xc0", b"\xc1", b"\xf5", b"\xf8"],
    "overlong": [
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
    ],
    "an overlong zero": [b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80"],
    "five or six bytes": [b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"],
    "beyond the last": [b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf"],
    "half a pair": [
        b"\xed\xa0\x80",
        b"\xed\xad\xbf",
        b"\xed\xae\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\x80\xed\xb0\x80",
    ],
}
UTF8 = [
    "\0",
    "\x7f",
    "\x80",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\ufffe",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
]


def texts():
    for matter, wrongs in NO_UTF8.items():
        for wrong in wrongs:
            inside = json.dumps({"x": "here"}).encode().replace(b"here", wrong)
            yield f"{matter}: {wrong.hex()}", [text(wrong)], NO_TEXT
            yield f"{matter} inside: {wrong.hex()}", [text(inside)], NO_TEXT
            halves = [part(TEXT, wrong[:1]), (CONTINUED, wrong[1:], {})]
            yield f"{matter} in pieces: {wrong.hex()}", halves, NO_TEXT
    for letter in UTF8:
        good = json.dumps({"x": letter}, ensure_ascii=False).encode()
        bytewise = [(CONTINUED if at else TEXT, good[at : at + 1], {"fin": False}) for at in range(len(good))]
        yield f"a text with U+{ord(letter):04X}", [text(good)], (TAKEN, good)
        yield f"a text with U+{ord(letter):04X} by bytes", [*bytewise, (CONTINUED, b"", {})], (TAKEN, good)


CASES = [case for group in (opcodes, sizes, pings, fragments, closes, texts) for case in group()]
