"""Divide a program's output into text, control characters and control sequences."""

import re
from collections.abc import Iterator

MAX_SEQUENCE = 4096  # characters kept of a sequence whose end has not arrived

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?:(?P<final>[@-~])|(?=[^ -~]))"  # a control character ends it
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|(?=\x1b[^\\]))"  # a title and the like
    r"|[ -/]+(?:[0-~]|(?=[^ -~]))"
    r"|(?P<single>[0-OQ-WYZ\\`-~])"
    r"|(?=[^ -~]))"
)

# Text; a control character; the final character of a sequence with its parameters, an escape's alone after an ESC.
Token = tuple[str, str]
TEXT, CONTROL, ESCAPE = "text", "control", "escape"


class Sequences:
    """Divides a program's output; the result does not depend on where the output was cut."""

    def __init__(self) -> None:
        self._carried = ""  # the beginning of a sequence

    def feed(self, text: str) -> Iterator[Token]:
        """The parts of a text; a sequence is given as its final character, then its parameters."""
        text, at = self._carried + text, 0
        self._carried = ""
        while at < len(text):
            found = _CONTROL.search(text, at)
            end = found.start() if found else len(text)
            if end > at:
                yield TEXT, text[at:end]
            if found is None:
                return
            if found[0] != "\x1b":
                yield CONTROL, found[0]
                at = end + 1
                continue
            sequence = _SEQUENCE.match(text, end)
            if sequence is None:
                self._carry(text[end:])
                return
            at = sequence.end()
            if sequence["single"]:
                yield ESCAPE, sequence["single"]
            elif sequence["final"] and not sequence["between"]:
                yield sequence["final"], sequence["parameters"]

    def _carry(self, rest: str) -> None:
        """Keep a sequence whose end is missing; of one that is too long, only its beginning."""
        if len(rest) > MAX_SEQUENCE:
            rest = rest[:2] + ("\x1b" if rest[-1] == "\x1b" else "")
        self._carried = rest


def numbers(parameters: str, *defaults: int) -> list[int]:
    """The parameters of a sequence as numbers; 0 and missing ones become their defaults."""
    given = [int(word) if word.isdecimal() and len(word) < 6 else 0 for word in parameters.split(";")]
    given += [0] * (len(defaults) - len(given))
    return [number or default for number, default in zip(given, defaults, strict=False)]
