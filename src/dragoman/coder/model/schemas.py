"""Checks foreign tools' schemas: a single bad one makes a provider refuse every request."""

from collections.abc import Iterator, Mapping

import msgspec
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for

MAX_BYTES = 100_000  # bytes of one schema
MAX_DEPTH = 40
MAX_TOLD = 200  # characters of the reason


def schema_fault(schema: Mapping[str, object]) -> str | None:
    """The fault in the JSON Schema of a tool's arguments, in one line; None if there is none."""
    try:
        if len(written := msgspec.json.encode(schema)) > MAX_BYTES:
            return f"it has more than {MAX_BYTES} bytes"
        if rb"\u0000" in written:
            return "it holds NUL characters"
        if _depth(schema) > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH} levels"
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as exc:
        where = "/".join(map(str, exc.absolute_path))
        return " ".join(f"{where}: {exc.message}".split())[:MAX_TOLD]
    except (TypeError, ValueError, RecursionError) as exc:
        return f"it cannot be read ({type(exc).__name__})"
    if schema.get("type") != "object":
        return "it is not the schema of an object"
    return next(
        (f"it refers to {ref!r}, which is not in it" for ref in _refs(schema) if not _leads(ref, schema)), None
    )


def _depth(value: object) -> int:
    """The depth of a value, counted up to just above the limit."""
    level, deepest = [value], 0
    while level and deepest <= MAX_DEPTH:
        deepest += 1
        level = [part for found in level for part in _parts(found)]
    return deepest


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _refs(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(ref := value.get("$ref"), str):
        yield ref
    for part in _parts(value):
        yield from _refs(part)


def _leads(ref: str, schema: Mapping[str, object]) -> bool:
    """Whether a reference has a target within the schema."""
    if ref == "#":
        return True
    at: object = schema
    for step in ref.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not ref.startswith("#/") or not isinstance(at, Mapping) or name not in at:
            return False
        at = at[name]
    return True
