"""Keys that the toolkit mistakes for letters."""

from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


def have_alt_digits() -> None:
    """Make the toolkit report Alt-1 to Alt-9 as keys; it reads them as letters for the sake of a macOS terminal."""
    known = cast("dict[str, object]", ANSI_SEQUENCES_KEYS)
    for digit in "0123456789":
        known.pop(f"\x1b{digit}", None)
