"""Bytes <-> schema types: strict first, lenient only when that fails and only where the protocol says so.

    an optional field that does not fit      -> its default      (unless `Exact` or `Nullable`)
    an item of a lenient list that does not  -> left out
    a variant whose tag is unknown           -> kept as Raw, byte for byte
    anything else that does not fit          -> Invalid, naming the place

The guard in `check` comes before any parsing: no depth, encoding or digit trick reaches the parser.
"""

import functools
import itertools
import re
import types
import typing
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .schema.base import Shape

MAX_DEPTH = 128  # serde_json stops at 128, pydantic at 200; no real message comes near
MAX_DROPPED = 10_000  # items of a list; leniency is for slips, not for work made on purpose
SHALLOW = 2 * MAX_DEPTH  # bytes; a shorter frame has no room for more levels and their ends

Invalid = msgspec.ValidationError
Malformed = msgspec.DecodeError


class TooDeep(Malformed):
    """Good JSON, perhaps, but nobody will find out."""


_UNIONS = (typing.Union, types.UnionType)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_NULL = Raw(b"null")
_COUNTABLE = 4096  # bytes; counting brackets pays in short frames only
_PEELED = 6  # levels; more than messages of the protocol have around a long text
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
_NO_STEPS = bytes(set(range(256)) - set(b"[]{}"))
_ESCAPES = rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_MARKS = rb"\A(?:\xef\xbb\xbf)+"


def check(frame: bytes) -> None:
    """Refuse what must not be read any further: too deep a nesting, bytes that are not UTF-8."""
    if len(frame) > SHALLOW:
        _check_depth(frame)
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError as exc:
            raise Malformed(f"not UTF-8 at byte {exc.start}") from None


def _check_depth(frame: bytes) -> None:
    """Peel off the outer levels: msgspec skips what is inside, at memory speed.  What is left is counted."""
    if len(frame) < _COUNTABLE and frame.count(b"[") + frame.count(b"{") <= MAX_DEPTH:
        return
    level, peeled = [Raw(frame.lstrip())], _PEELED
    try:
        for depth in range(peeled):
            room = 2 * (MAX_DEPTH - depth)  # what is shorter cannot hold the levels that are left
            level = [inner for value in level for inner in _inside(value, room) if len(inner) >= room]
            if not level:
                return
    except (RecursionError, _Hidden):
        level, peeled = [Raw(frame)], 0
    for value in level:
        _count_depth(bytes(memoryview(value)[:_COUNTABLE]), peeled)  # mostly enough to know
        _count_depth(bytes(value), peeled)


class _Hidden(Exception):
    """A member that is there twice: the parser gives the last one only."""


def _inside(value: Raw, room: int) -> Iterable[Raw]:
    match memoryview(value)[0]:
        case 0x7B:  # {
            members = _OBJECT.decode(value)
            if len(value) - sum(len(name) + len(inner) + 4 for name, inner in members.items()) >= room:
                raise _Hidden
            return members.values()
        case 0x5B:  # [
            return _ARRAY.decode(value)
    return ()


def _count_depth(text: bytes, depth: int) -> None:
    """Count brackets outside of strings; only what is good JSON is counted right, and the rest nobody reads."""
    outside = b"".join(text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    steps = outside.translate(_STEPS, _NO_STEPS)  # one byte a bracket: 1 in, -1 out
    deepest = MAX_DEPTH - depth
    if b"\1" * (deepest + 1) in steps or max(itertools.accumulate(array("b", steps)), default=0) > deepest:
        raise TooDeep(f"nested deeper than {MAX_DEPTH} levels")


def mend(frame: bytes) -> bytes:
    """The frame as a strict parser takes it: no byte order mark, lone surrogates replaced."""
    return re.sub(_ESCAPES, lambda match: b"\\ufffd" if match[1] else match[0], re.sub(_MARKS, b"", frame))


_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """One line of JSON: msgspec escapes every control character, so no newline can be inside."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(value))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Struct):
        fields = {name: _without_surrogates(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def _pick(tp: type, value: Any) -> Any:
    """msgspec's hook for the unions it cannot take apart itself."""
    if not issubclass(tp, Shape):
        raise NotImplementedError(f"no reading for {tp}")
    return msgspec.convert(value, tp.arm(value), dec_hook=_pick)


@functools.cache
def decoder(tp: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(tp, dec_hook=_pick)


def decode(data: bytes | Raw, tp: Any) -> Any:
    """`data` as a `tp`; raises Invalid where it cannot be read as one."""
    try:
        return decoder(tp).decode(data)
    except Invalid:
        return _build(Raw(data), tp, "$")


def decode_params(data: Raw, tp: Any) -> Any:
    """The params of a message, where null and nothing mean an empty object."""
    try:
        return decoder(tp).decode(data)
    except Invalid:
        return decode(data if data != _NULL else b"{}", tp)


def decode_result(data: Raw | None, tp: Any) -> Any:
    """A result, where peers in the wild answer null for an empty object or an empty list."""
    if data is not None or tp is Any or tp is Raw:
        return decode(data or b"null", tp)
    lists = [f.encode_name for f in msgspec.structs.fields(tp) if _reading(f.type)[0] == "lenient"]
    return decode(encode(dict.fromkeys(lists, ())), tp)


def decode_strict(data: bytes | Raw, tp: Any) -> Any:
    """As `decode`, without any of its leniency: what a checker wants to know."""
    return decoder(tp).decode(data)


def _build(raw: Raw, tp: Any, path: str) -> Any:
    """The lenient reading of one value, level by level, on the bytes themselves."""
    try:
        return decoder(tp).decode(raw)
    except Invalid as exc:
        failure = Invalid(_placed(str(exc), path))
    reading, inner = _reading(tp)
    if reading is not None:
        return _build(raw, inner, path)
    if (item := _item_type(tp)) is not None and _starts(raw, b"["):
        values = _ARRAY.decode(raw)
        if len(values) >= _shortest(tp):
            return [_build(value, item, f"{path}[{i}]") for i, value in enumerate(values)]
    if (held := _value_type(tp)) is not None and _starts(raw, b"{"):
        return {key: _build(value, held, f"{path}.{key}") for key, value in _OBJECT.decode(raw).items()}
    if typing.get_origin(tp) in _UNIONS:
        arm = _arm(raw, typing.get_args(tp))
        if arm is Raw:
            return raw.copy()
        if arm is not None:
            return _build(raw, arm, path)
    elif isinstance(tp, type) and issubclass(tp, Shape):
        return _build(raw, tp.arm(msgspec.json.decode(raw)), path)
    elif isinstance(tp, type) and issubclass(tp, Struct) and _starts(raw, b"{"):
        return _build_struct(raw, tp, path)
    raise failure


def _build_struct(raw: Raw, tp: type[Struct], path: str) -> Struct:
    fields = _fields(raw, tp, path)
    try:
        return tp(**fields)
    except (ValueError, TypeError) as exc:  # fields that do not go together
        raise Invalid(_placed(str(exc), path)) from None


def _fields(raw: Raw, tp: type[Struct], path: str) -> dict[str, Any]:
    values = _OBJECT.decode(raw)
    config = tp.__struct_config__
    tag = values.get(config.tag_field or "")
    if tag is not None and msgspec.json.decode(tag) != config.tag:
        raise Invalid(f"Invalid value - at `{path}.{config.tag_field}`")
    kept: dict[str, Any] = {}
    for field in _readable(tp):
        value = values.get(field.wire_name)
        if value is None:
            if field.required:
                raise Invalid(f"Object missing required field `{field.wire_name}` - at `{path}`")
            continue
        read = _items if field.sifts else _build
        try:
            kept[field.name] = read(value, field.type, f"{path}.{field.wire_name}")
        except Invalid:
            if field.reading == "lenient" or (field.reading == "nullable" and value == _NULL):
                kept[field.name] = _empty(field.type)
            elif not field.forgives:
                raise
    return kept


class _Field(Struct):
    name: str
    wire_name: str
    required: bool
    reading: str | None
    type: Any

    @property
    def sifts(self) -> bool:
        """Whether items of a list that do not fit are left out."""
        return self.reading in ("lenient", "sifted") or (not self.required and self.reading is None)

    @property
    def forgives(self) -> bool:
        """Whether a value that does not fit is as good as none."""
        return not self.required and self.reading in (None, "whole")


_readables: dict[type[Struct], list[_Field]] = {}


def _readable(tp: type[Struct]) -> list[_Field]:
    """The fields of a struct and how each is read; worked out once."""
    if tp not in _readables:
        _readables[tp] = [
            _Field(field.name, field.encode_name, field.required, *_reading(field.type))
            for field in msgspec.structs.fields(tp)
        ]
    return _readables[tp]


def _items(raw: Raw, tp: Any, path: str) -> Any:
    """A lenient list without the items that do not fit; any other value as it is."""
    item = _item_type(tp)
    if item is None or not _starts(raw, b"["):
        return _build(raw, tp, path)
    kept = []
    dropped = 0
    for index, value in enumerate(_ARRAY.decode(raw)):
        try:
            kept.append(_build(value, item, f"{path}[{index}]"))
        except Invalid:
            dropped += 1
            if dropped > MAX_DROPPED:
                raise
    return kept


def _item_type(tp: Any) -> Any:
    """What a list holds, also one that may be null; None for anything else."""
    if typing.get_origin(tp) in _UNIONS:
        return next((item for arm in typing.get_args(tp) if (item := _item_type(arm))), None)
    if typing.get_origin(tp) is typing.Annotated:
        return _item_type(typing.get_args(tp)[0])
    return typing.get_args(tp)[0] if typing.get_origin(tp) is Sequence else None


def _shortest(tp: Any) -> int:
    """How many items a list must have at least."""
    if typing.get_origin(tp) in _UNIONS:
        return max(map(_shortest, typing.get_args(tp)))
    notes = typing.get_args(tp)[1:] if typing.get_origin(tp) is typing.Annotated else ()
    return max((note.min_length or 0 for note in notes if isinstance(note, msgspec.Meta)), default=0)


def _value_type(tp: Any) -> Any:
    """What a map holds, also one that may be null; None for anything else."""
    if typing.get_origin(tp) in _UNIONS:
        return next((value for arm in typing.get_args(tp) if (value := _value_type(arm))), None)
    return typing.get_args(tp)[1] if typing.get_origin(tp) is Mapping else None


def _reading(tp: Any) -> tuple[str | None, Any]:
    """The word of schema.base that marks a field's type, and the type without it."""
    if typing.get_origin(tp) is typing.Annotated:
        inner, *notes = typing.get_args(tp)
        for note in notes:
            if isinstance(note, msgspec.Meta) and note.extra and "reading" in note.extra:
                return note.extra["reading"], inner
    return None, tp


def _empty(tp: Any) -> Any:
    return [] if _item_type(tp) else {}


def _arm(raw: Raw, arms: tuple[Any, ...]) -> Any:
    """The arm of a union an object belongs to: Raw for a tag nobody knows, None for an object without one."""
    if not _starts(raw, b"{"):
        return None
    values = _OBJECT.decode(raw)
    is_tagged = False
    for arm in (arm for arm in arms if isinstance(arm, type) and issubclass(arm, Struct | Shape)):
        if issubclass(arm, Shape) or (config := arm.__struct_config__).tag is None:
            return arm
        tag = values.get(config.tag_field or "")
        if tag is not None and _starts(tag, b'"'):
            is_tagged = True
            if msgspec.json.decode(tag) == config.tag:
                return arm
    return Raw if is_tagged and Raw in arms else None


def _starts(raw: Raw, bracket: bytes) -> bool:
    return bytes(raw).lstrip().startswith(bracket)


def _placed(message: str, path: str) -> str:
    """msgspec's message with the place counted from the top: `$` there is `path` here."""
    if "`$" in message:
        return message.replace("`$", f"`{path}", 1)
    return f"{message} - at `{path}`"
