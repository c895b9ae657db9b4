"""What every message type is made of.

Five words say how a field is read when its value does not fit, as the protocol's own notes do:

    (nothing)    optional: falls back to its default, list items that do not fit are left out
                 required: the message is refused
    Exact        optional, yet a value that does not fit refuses the message
    Lenient      required to be there, yet a value that does not fit becomes empty
    Nullable     null means empty; anything else that does not fit refuses the message
    Sifted       required to be a list; items that do not fit are left out  (v2)
    Whole        an optional list that one item that does not fit makes fall back to its default  (v2)
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

__all__ = [
    "UNSET",
    "Bare",
    "Exact",
    "Int32",
    "Int64",
    "JsonObject",
    "Lenient",
    "Model",
    "Nullable",
    "Raw",
    "RequestId",
    "Shape",
    "Sifted",
    "UInt16",
    "UInt32",
    "UInt64",
    "UnsetType",
    "Whole",
]

T = TypeVar("T")

Exact = Annotated[T, Meta(extra={"reading": "exact"})]
Lenient = Annotated[T, Meta(extra={"reading": "lenient"})]
Nullable = Annotated[T, Meta(extra={"reading": "nullable"})]
Sifted = Annotated[T, Meta(extra={"reading": "sifted"})]
Whole = Annotated[T, Meta(extra={"reading": "whole"})]

UInt16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
UInt64 = Annotated[int, Meta(ge=0)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = int

JsonObject = Mapping[str, Any]
RequestId = int | str | None


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Bare(Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """A part of a message that has no `_meta` of its own."""


class Model(Bare, kw_only=True):
    """Base of every message and of every part of one: immutable, snake_case here, camelCase on the wire."""

    # Texts are used as they are: half a character in one refuses the message, instead of becoming U+FFFD.
    is_verbatim: ClassVar[bool] = False

    meta: JsonObject | None = field(default=None, name="_meta")


class _ShapeMeta(type):
    """Lets any arm of a shape count as an instance of it, which is what msgspec checks."""

    arms: tuple[type[Struct], ...] = ()

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.arms)


class Shape(metaclass=_ShapeMeta):
    """A union whose arms no tag tells apart: `arm` names the one a JSON value belongs to.

    Type checkers see the plain union; msgspec sees the subclass and the codec asks `arm`.
    """

    _tag: ClassVar[str | None]
    _by_tag: ClassVar[Mapping[object, type[Struct]]]
    _by_key: ClassVar[Mapping[str, type[Struct]]]
    _bare: ClassVar[type[Struct]]

    def __init_subclass__(
        cls,
        *,
        tag: str | None = None,
        tagged: tuple[type[Struct], ...] = (),
        keys: Mapping[str, type[Struct]] | None = None,
        bare: type[Struct] | None = None,
    ) -> None:
        """Arms chosen by the value of `tag`, else by the first of `keys` that is there, else `bare`."""
        cls._tag = tag
        cls._by_tag = {arm.__struct_config__.tag: arm for arm in tagged}
        cls._by_key = dict(keys or {})
        cls._bare = bare or next(iter(cls._by_key.values()))
        cls.arms = tuple(dict.fromkeys([*tagged, *cls._by_key.values(), cls._bare]))

    @classmethod
    def arm(cls, value: object) -> type[Struct]:
        """Give the type that a decoded JSON value belongs to."""
        if not isinstance(value, Mapping):
            return cls._bare
        tag = value.get(cls._tag) if cls._tag else None
        if isinstance(tag, str) and tag in cls._by_tag:
            return cls._by_tag[tag]
        return next((cls._by_key[key] for key in cls._by_key if key in value), cls._bare)
