"""Answers that fit into one frame; the size of a text depends on how many of its characters are escaped."""

import msgspec

from .. import schema as s
from ..framing import MAX_FRAME
from .files.errors import refusal

ROOM = MAX_FRAME - 64 * 1024  # bytes for the text of an answer, quotes and escapes included
WIDEST = 6  # bytes that one character can take up


def fits(text: str) -> bool:
    return len(text) * WIDEST <= ROOM or len(msgspec.json.encode(text)) <= ROOM


def check_fits(text: str, path: str) -> None:
    """Refuse a text that no frame can hold, even if its file is not too large."""
    if not fits(text):
        raise refusal("too_large", path)


def fitting(output: s.TerminalOutputResponse) -> s.TerminalOutputResponse:
    """The output of a command, shortened at its beginning until it fits."""
    text = output.output
    while not fits(text):
        excess = len(msgspec.json.encode(text)) - ROOM
        text = text[max(excess // WIDEST, len(text) // 64) :]
    if text is output.output:
        return output
    return msgspec.structs.replace(output, output=text, truncated=True)
