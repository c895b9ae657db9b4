"""Strings that try to show something else than they are, and how a shown one is read back."""

import random
import re
import sys
import unicodedata
from collections.abc import Iterator

from dragoman.host.display import visible

# What no text may contain after it was made visible, written down here once more and independently.
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
HIDDEN = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, 0x2800, 0xFFFC, 0x00A0, 0x3000),
        *(*range(0x2000, 0x200B), *range(0xFE00, 0xFE10), *range(0x180B, 0x180E), *range(0xE0100, 0xE01F0)),
    )
)
SEQUENCES = (
    "\x1b[31m", "\x1b[2J", "\x1b[1A\x1b[2K", "\x1b[999D", "\x1b[8m", "\x1b[?25l", "\x1b[?1049h", "\x1b7\x1b8",
    "\x1bc",
    "\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b]9;hello\x07", "\x1b]1337;File=:AAAA\x07", "\x1b]777;notify;a;b\x07",
    "\x1bPq#0;2;0;0;0#0~~@@vv@@~~\x1b\\", "\x1b_Gf=24;AAAA\x1b\\", "\x1b^private\x1b\\", "\x1bX string \x1b\\",
    "\x9b31m", "\x9d0;title\x9c", "\x90q\x9c", "\r", "\b\b\b\b", "\x7f", "\x0e\x0f", "\v\f", "\x00",
    "\u2028", "\u2029",
    "\u202etxt.exe\u202c", "\u2066\u2069", "\u2067cilbup\u2069", "\ufeff", "\u200b" * 40, "\U000e0041\U000e0042",
    "\u3164" * 9, "\ufe0f", "\u00a0" * 20, "\u2003" * 20, " " * 400, "\t" * 30, "\ue000\uf8ff", "\ud800", "\u034f",
    "\u0301" * 30,
)  # fmt: skip


def strings(count: int, seed: int = 57) -> Iterator[str]:
    """Every control and format character at five places of a command, every sequence, then mixtures of them all."""
    hidden = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) in ("Cc", "Cf")]
    places = ("{}rm -rf build", "rm{} -rf build", "rm -rf{} build", "rm -rf bu{}ild", "rm -rf build{}")
    made = [place.format(char) for char in hidden for place in places]
    made += [place.format(text) for text in SEQUENCES for place in places]
    yield from made[:count]
    chance = random.Random(seed)
    alphabet = [*hidden, *SEQUENCES, *map(chr, HIDDEN), "a", "é", "漢", "\\", "\\u{", "⟨", "⟩", "…", "'", " ", "  "]
    for _ in range(count - len(made)):
        yield "".join(chance.choices(alphabet, k=chance.randrange(1, 40)))


def is_safe(shown: str) -> bool:
    """Whether nothing in a shown text is hidden, moves the cursor, or turns the direction."""
    return not any(unicodedata.category(char) in HIDDEN_CATEGORIES or ord(char) in HIDDEN for char in shown)


def read_back(shown: str) -> str:
    """The text that was shown, from what was shown of it."""

    def repeated(found: re.Match[str]) -> str:
        return (chr(int(found[1], 16)) if found[1] else " ") * int(found[2])

    spread = re.sub(r"⟨(?:\\u\{([0-9a-f]+)\})?\u00d7([0-9]+)⟩", lambda found: _kept(repeated(found)), shown)
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), spread)


def _kept(text: str) -> str:
    return "".join(f"\\u{{{ord(char):x}}}" for char in text)


def show_all(count: int) -> int:
    """Show that many strings; gives how many were safe to see and could be read back as they were."""
    right = 0
    for text in strings(count):
        shown = visible(text, limit=100_000)
        right += is_safe(shown) and read_back(shown) == text
    return right
