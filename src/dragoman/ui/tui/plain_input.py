"""A single-line input that escapes control characters."""

from textual.widgets import Input

from ..legible import legible


class PlainInput(Input):
    """An `Input` that escapes the characters that a terminal might obey or would not show."""

    DEFAULT_CSS = "PlainInput, PlainInput:focus { border: none; height: 1; padding: 0; background: $raised; }"

    def validate_value(self, value: str) -> str:
        """Escape invisible characters, whether the user or the agent supplied them."""
        return legible(value.replace("\n", " ").replace("\t", " "))
