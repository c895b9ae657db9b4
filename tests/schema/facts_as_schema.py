"""The facts of the official schema as a JSON Schema that messages are held against.

It says of names, types, fields, values and tags what the official one says, and nothing of our own types.
"""

from typing import Any

Node = dict[str, Any]
SIMPLE: dict[str, Node] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "double": {"type": "number"},
    "object": {"type": "object"},
    "null": {"type": "null"},
    "any": {},
    **{name: {"type": "integer"} for name in ("int32", "int64")},
    **{f"uint{bits}": {"type": "integer", "minimum": 0, "maximum": 2**bits - 1} for bits in (16, 32, 64)},
}


def as_schema(types: Node) -> Node:
    """A JSON Schema with a definition for each type."""
    return {"$defs": {name: _type(fact) for name, fact in types.items()}}


def _type(fact: Node) -> Node:
    match fact["kind"]:
        case "alias":
            return _value(fact)
        case "enum":
            return _named(fact["type"]) if fact["open"] else {"enum": fact["values"]}
        case "object":
            return _object(fact)
        case "union":
            return _union(fact)
    return {}  # the frame around messages


def _union(fact: Node) -> Node:
    tag = fact.get("tag")
    arms = [_arm(arm, tag) for arm in fact["arms"]]
    if fact["open"]:
        known = [arm["tag"] for arm in fact["arms"] if "tag" in arm]
        arms.append(
            {"type": "object", "properties": {tag: {"not": {"enum": known}}}, "required": [tag]} if tag else {}
        )
    return {"allOf": [_object(fact)] if fact["fields"] else [], "anyOf": arms}


def _arm(arm: Node, tag: str | None) -> Node:
    parts = [_named(arm["type"])] if "type" in arm else []
    if arm.get("fields"):
        parts.append(_object(arm))
    if "tag" in arm:
        parts.append({"type": "object", "properties": {tag: {"const": arm["tag"]}}, "required": [tag]})
    return {"allOf": parts} if parts else {"type": "object"}


def _object(fact: Node) -> Node:
    fields = fact.get("fields", {})
    properties = {name: _value(field) for name, field in fields.items()}
    if fact.get("meta"):
        properties["_meta"] = {"type": ["object", "null"]}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, field in fields.items() if field["required"]],
    }


def _value(field: Node) -> Node:
    found = {**_named(field["type"]), **field.get("limits", {})}
    return {"anyOf": [found, {"type": "null"}]} if field.get("nullable") else found


def _named(name: str) -> Node:
    if name.endswith("[]"):
        return {"type": "array", "items": _named(name[:-2])}
    if name.startswith("map<"):
        return {"type": "object", "additionalProperties": _named(name[4:-1])}
    return dict(SIMPLE[name]) if name in SIMPLE else {"$ref": f"#/$defs/{name}"}
