"""A word that is not known, and the one that was probably meant."""

import difflib
from collections.abc import Iterable

ALIKE = 0.65  # of 1: two letters that changed places in a word of three are


def nearest(wanted: str, known: Iterable[str]) -> str | None:
    """The known word that is most like the one that was written; None where none is."""
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(wanted.casefold()[:100], by_case, 1, ALIKE)
    return by_case[near[0]] if near else None


def choices(wanted: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to write instead: the word that was probably meant, else `otherwise`, else all there are."""
    names = list(known)
    if near := nearest(wanted, names):
        return f"did you mean {near!r}?"
    return otherwise or (f"choose from: {', '.join(names)}" if names else "there are none")
