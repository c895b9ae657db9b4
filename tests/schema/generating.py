"""Messages nobody thought of: hypothesis strategies for every type of the schema."""

import json
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import codec, schema
from dragoman.schema import v2
from dragoman.schema.base import Shape

STRUCTS = {
    f"{tp.__module__.removeprefix('dragoman.schema.')}.{name}": tp
    for package in (schema, v2)
    for name in package.__all__
    if isinstance(tp := getattr(package, name), type) and issubclass(tp, Struct)
}
TAGS = sorted({str(tp.__struct_config__.tag_field) for tp in STRUCTS.values() if tp.__struct_config__.tag})
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
# A variant nobody knows, under every tag there is.
UNKNOWN = st.builds(
    lambda text: Raw(json.dumps(dict.fromkeys(TAGS, f"hologram {text}")).encode()), st.text(max_size=5)
)

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    Raw: UNKNOWN,
    UnsetType: st.just(UNSET),
    type(None): st.none(),
    bool: st.booleans(),
    str: st.text(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    dict: st.builds(lambda text: {"type": f"hologram {text}"}, st.text(max_size=5)),
}


def values(tp: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the schema, within the limits it names."""
    if tp in PLAIN:
        return PLAIN[tp]
    if isinstance(tp, type) and issubclass(tp, Shape):
        return st.one_of([values(arm) for arm in tp.arms])
    if isinstance(tp, type) and issubclass(tp, Struct):
        return messages(tp)
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if origin is typing.Annotated:
        return within(args[0], args[1:])
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is Sequence:
        return st.lists(values(args[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(st.text(), values(args[1]), max_size=2)
    assert origin in (typing.Union, types.UnionType), tp
    return st.one_of([values(arm) for arm in args])


def within(tp: Any, notes: Sequence[msgspec.Meta]) -> st.SearchStrategy[Any]:
    lowest = next((note.ge for note in notes if note.ge is not None), None)
    highest = next((note.le for note in notes if note.le is not None), None)
    shortest = next((note.min_length for note in notes if note.min_length is not None), 0)
    if tp is int:
        return st.integers(int(lowest or 0), 2**64 - 1 if highest is None else int(highest))
    if tp is float:
        return st.floats(lowest, highest, allow_nan=False)
    if typing.get_origin(tp) is Sequence:
        return st.lists(values(typing.get_args(tp)[0]), min_size=shortest, max_size=2)
    return st.text(min_size=shortest) if shortest else values(tp)


def messages(tp: type[Struct]) -> st.SearchStrategy[Any]:
    fields = {field.name: values(field.type) for field in msgspec.structs.fields(tp)}
    return st.fixed_dictionaries(fields).map(lambda filled: make(tp, filled)).filter(bool)


def make(tp: type[Struct], filled: dict[str, Any]) -> Struct | None:
    """The message, or none where two fields do not go together."""
    try:
        return tp(**filled)
    except codec.Invalid:
        return None
