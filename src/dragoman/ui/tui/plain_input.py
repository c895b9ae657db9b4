"""A line to write into, which shows no control character as it is."""

from textual.widgets import Input

from ..legible import legible


class PlainInput(Input):
    """An `Input` whose text is written out wherever a terminal might obey it, or would not show it."""

    DEFAULT_CSS = "PlainInput, PlainInput:focus { border: none; height: 1; padding: 0; background: $raised; }"

    def validate_value(self, value: str) -> str:
        """Write out what cannot be seen, whoever put it there."""
        return legible(value.replace("\n", " ").replace("\t", " "))
