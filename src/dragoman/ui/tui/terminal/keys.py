"""Keys as terminals send them, where the toolkit takes them for letters."""

from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


def have_alt_digits() -> None:
    """Have Alt-1 to Alt-9 be keys; the toolkit reads them as letters, for one terminal of macOS."""
    known = cast("dict[str, object]", ANSI_SEQUENCES_KEYS)
    for digit in "0123456789":
        known.pop(f"\x1b{digit}", None)
