"""Model servers that refuse what the real ones refuse: broken pictures, blank texts, odd names, ids used twice."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .model_servers import WIRES, ModelServer, Ollama

POISON = "POISON"  # a word that no provider takes, such as one its policy forbids
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Strict(ModelServer):
    """Looks through every request; what is wrong with one is its answer, with status 400."""

    def refusal(self, request: dict[str, Any]) -> str | None:
        return next(faults(request), None)


def faults(request: Mapping[str, Any]) -> Iterator[str]:
    """What a provider would refuse in a request, whichever wire it came over."""
    text = json.dumps(request)
    if POISON in text:
        yield "messages.3.content: the content is not allowed"
    if "\\u0000" in text or re.search(r"\\ud[89a-f]", re.sub(r"\\ud[89ab]..\\ud[c-f]..", "", text)):
        yield "the request holds characters that are none"
    if '"anyOf": "no"' in text or '"nonsense"' in text:
        yield "tools.3.input_schema: JSON schema is invalid"
    yield from _calls(request)
    for value in _within(request):
        yield from _picture(value)
        if value.get("type") in ("text", "input_text") and not str(value.get("text", "")).strip():
            yield "messages: text content blocks must contain non-whitespace text"
        if isinstance(value.get("text"), str) and value.get("type") is None and not value["text"].strip():
            yield "contents.parts.text: must not be blank"


def _within(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from _within(part)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _within(part)


def _picture(value: Mapping[str, Any]) -> Iterator[str]:
    media = value.get("media_type") or value.get("mimeType") or value.get("mime_type")
    data = value.get("data")
    url = value.get("url") or value.get("image_url")
    if isinstance(url, str) and url.startswith("data:"):
        media, _, data = url.removeprefix("data:").partition(";base64,")
    if not (isinstance(media, str) and isinstance(data, str) and "/" in media):
        return
    try:
        found = base64.b64decode(data.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        yield "image: invalid base64 data"
        return
    begins = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8", "application/pdf": b"%PDF", "image/gif": b"GIF8"}
    if media not in begins or not found.startswith(begins[media]):
        yield f"image: the content is not {media}"
    if b"UNPAINTABLE" in found:
        yield "Could not process image"


def _calls(request: Mapping[str, Any]) -> Iterator[str]:
    """Names and ids of calls and of their results."""
    made: list[str] = []
    answered: list[str] = []
    for value in _within({key: part for key, part in request.items() if key != "tools"}):
        kind = value.get("type")
        if kind in ("function", "tool_use", "function_call"):
            function = value.get("function") or value
            id, name = value.get("call_id") or value.get("id"), function.get("name")
            if not isinstance(name, str) or not NAME.fullmatch(name):
                yield f"Invalid 'name': {name!r}"
            if isinstance(arguments := function.get("arguments"), str) and not _is_object(arguments):
                yield "arguments must be a JSON object"
            made.append(str(id))
        answers = value.get("role") == "tool" or kind in ("tool_result", "function_call_output")
        if answers:
            answered.append(str(value.get("tool_call_id") or value.get("tool_use_id") or value.get("call_id")))
    if len(set(made)) != len(made) or sorted(made) != sorted(answered):
        yield f"calls {made} and results {answered} do not belong together"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def strict(wire: type[ModelServer]) -> type[ModelServer]:
    """A wire whose server refuses what the real ones do."""
    return type(f"Strict{wire.__name__}", (Strict, wire), {})


STRICT = [strict(wire) for wire in WIRES if wire is not Ollama]  # which speaks as OpenAI does
