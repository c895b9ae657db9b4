"""The input of a tool while it is streamed: its complete members."""

import json

from ....foundation.documents import Document

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def partial_object(text: str) -> Document:
    """The complete members of an unfinished JSON object; the last one counts once something follows it."""
    found: Document = {}
    at = _past(text, 0)
    if at >= len(text) or text[at] != "{":
        return found
    at = _past(text, at + 1)
    while at < len(text) and text[at] == '"':
        try:
            name, at = _DECODER.raw_decode(text, at)
            at = _past(text, at)
            if text[at : at + 1] != ":":
                break
            value, at = _DECODER.raw_decode(text, _past(text, at + 1))
        except ValueError:
            break
        at = _past(text, at)
        if at >= len(text) or text[at] not in ",}":  # a number may continue
            break
        found[name] = value
        at = _past(text, at + 1)
    return found


def is_whole(text: str) -> bool:
    """Whether an object is complete."""
    if not text.rstrip(_SPACE).endswith("}"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _past(text: str, at: int) -> int:
    """The first position that is not a space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
