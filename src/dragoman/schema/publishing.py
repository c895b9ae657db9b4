"""JSON Schemas of messages, for programs that check them without this library."""

import typing
from typing import Any

import msgspec

from .base import Raw, Shape

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/$defs/{name}"


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a message or of a part of one, such as `ContentBlock` or `SessionUpdate`.

    It describes what is sent.  A reader of ours is more lenient: it keeps kinds of updates that it does not know.
    """
    arms = [arm for arm in typing.get_args(kind) if arm is not Raw] or [kind]
    shapes: dict[Any, None] = {}

    def of_shape(shape: Any) -> dict[str, Any]:
        if not issubclass(shape, Shape):
            raise NotImplementedError
        shapes.setdefault(shape)
        return {"anyOf": [_named(arm) for arm in shape.arms]}

    seen = -1
    while seen != len(shapes):  # the arms of a shape may have shapes among their fields
        seen = len(shapes)
        kinds = [*arms, *(arm for shape in list(shapes) for arm in shape.arms)]
        told, parts = msgspec.json.schema_components(kinds, schema_hook=of_shape, ref_template=_TEMPLATE)
    whole = told[0] if len(arms) == 1 else {"anyOf": list(told[: len(arms)])}
    return {"$schema": _DIALECT, **whole, "$defs": {name: _closed(part) for name, part in parts.items()}}


def _named(arm: type) -> dict[str, Any]:
    """A reference to an arm of a shape; an arm that is read as it is, is any object."""
    return {"$ref": _TEMPLATE.format(name=arm.__name__)} if issubclass(arm, msgspec.Struct) else {"type": "object"}


def _closed(part: Any) -> Any:
    """A part without what a union accepts because it is kept unread: `{}`, which every value fits."""
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _closed(member) for name, member in part.items()}
    if isinstance(kept.get("anyOf"), list) and len(kept["anyOf"]) > 1:
        kept["anyOf"] = [each for each in kept["anyOf"] if each] or kept["anyOf"]
    return kept
