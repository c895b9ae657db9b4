"""Suggest the word that was probably meant by an unknown one."""

import difflib
from collections.abc import Iterable

ALIKE = 0.65  # on a scale to 1; a word of three letters, two of them swapped, still counts as similar


def nearest(wanted: str, known: Iterable[str]) -> str | None:
    """The known word most similar to the one that was written; None if no word is similar enough."""
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(wanted.casefold()[:100], by_case, 1, ALIKE)
    return by_case[near[0]] if near else None


def choices(wanted: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to write instead: the word that was probably meant, else `otherwise`, else the list of all words."""
    names = list(known)
    if near := nearest(wanted, names):
        return f"did you mean {near!r}?"
    return otherwise or (f"choose from: {', '.join(names)}" if names else "there are none")
