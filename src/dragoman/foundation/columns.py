"""How many columns of a terminal a text takes."""

import unicodedata


def width(text: str) -> int:
    """How many columns of a terminal a text takes; letters of some scripts take two, accents and joiners none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me") or char in "\u200c\u200d" else 1
