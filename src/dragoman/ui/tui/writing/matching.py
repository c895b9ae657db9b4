"""Fuzzy matching: a text contains the typed letters in order, best close together and at the start of words."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
BOUNDARIES = "/._- "


def score(wanted: str, text: str) -> int | None:
    """How well a text matches, lower is better; None if it does not. Both arguments are in lower case."""
    at, cost, last = -1, 0, -1
    for letter in wanted:
        at = text.find(letter, at + 1)
        if at < 0:
            return None
        is_start = at == 0 or text[at - 1] in BOUNDARIES
        cost += 0 if at == last + 1 and last >= 0 else (1 if is_start else 3) + min(at - last, 20) // 4
        last = at
    return cost * 4 + min(len(text), 200) // 8


def matching(wanted: str, things: Sequence[T], words: Callable[[T], str]) -> list[T]:
    """The things that match, the best first; all of them, in their order, if `wanted` is empty."""
    letters = wanted.lower().replace(" ", "")
    if not letters:
        return list(things)
    scored = [(found, at) for at, thing in enumerate(things) if (found := _best(letters, words(thing))) is not None]
    return [things[at] for _, at in sorted(scored)]


def _best(letters: str, text: str) -> int | None:
    """The score of a text, or that of its last path component if it is better."""
    text = text.lower()
    if (whole := score(letters, text)) is None:
        return None
    if letters in text:
        whole -= 20
    name = text.rpartition("/")[2]
    return whole if name == text or (last := score(letters, name)) is None else min(whole, last - 10)
