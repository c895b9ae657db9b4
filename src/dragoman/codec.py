"""Bytes <-> schema types: strict first, lenient only when that fails and only where the protocol says so.

    an optional field that does not fit      -> its default      (unless `Exact` or `Nullable`)
    an item of a lenient list that does not  -> left out
    a variant whose tag is unknown           -> kept as Raw, byte for byte
    anything else that does not fit          -> Invalid, naming the place

The guard in `framing.check` comes before any parsing: no depth, encoding or digit trick reaches the parser.
"""

import functools
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from .errors import LocalProtocolError, brief
from .schema.base import Shape

T = TypeVar("T")

MAX_DROPPED = 10_000  # items of a list; leniency is for slips, not for work made on purpose
MAX_LISTED = 100_000  # members of a bad message, of which a list is made

Invalid = msgspec.ValidationError
Malformed = msgspec.DecodeError


_TEXTS_AND_NUMBERS = frozenset({str, int, float, bool, type(None), msgspec.UnsetType, Raw})
_UNIONS = (typing.Union, types.UnionType)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_FRACTION = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")
_ARRAY = msgspec.json.Decoder(list[Raw])
_NULL = Raw(b"null")
_ESCAPES = rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_MARKS = rb"\A(?:\xef\xbb\xbf)+"


def mend(frame: bytes) -> bytes:
    """The frame as a strict parser takes it: no byte order mark, lone surrogates replaced."""
    frame = re.sub(_MARKS, b"", frame)
    if b"\\ud" not in frame and b"\\uD" not in frame:
        return frame
    return re.sub(_ESCAPES, lambda match: b"\\ufffd" if match[1] else match[0], frame)


def _plain(value: Any) -> Any:
    """msgspec's hook for what it cannot encode: a subclass of a plain type is sent as that type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    raise TypeError(f"an object of type {type(value).__name__} cannot be written as JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


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
        if getattr(value, "is_verbatim", False):
            raise LocalProtocolError(
                f"a {type(value).__name__} cannot be sent: half a character (a lone surrogate) is in it"
            )
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


@functools.cache
def reader(tp: Any) -> Callable[[bytes | Raw], Any]:
    """What reads bytes as a `tp`, strictly: for whoever does so over and over."""
    return decoder(tp).decode


@functools.cache
def readable(tp: Any) -> Any:
    """A type that JSON can be read into, its decoder built; raises TypeError for one that it cannot."""
    if tp is object:
        return Any  # what a strict type checker is told instead
    if isinstance(tp, str):
        raise TypeError(f"{tp!r} is a name, not a type")
    decoder(tp)
    if (foreign := _foreign(tp)) is not None:
        raise TypeError(f"nothing says how to read JSON into {foreign!r}")
    return tp


def _foreign(tp: Any) -> Any:
    """The first class within a type that is no type of data: msgspec finds that out when it meets a value."""
    from msgspec import inspect  # is needed by few programs, and takes its time

    seen: set[int] = set()
    waiting: list[Any] = [inspect.type_info(tp)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.CustomType):
            if not issubclass(info.cls, Shape):
                return info.cls
        elif isinstance(info, Struct) and id(info) not in seen:
            seen.add(id(info))
            waiting += [getattr(info, name) for name in info.__struct_fields__]
        elif isinstance(info, tuple):
            waiting += info
    return None


def decode(data: bytes | Raw, tp: Any) -> Any:
    """`data` as a `tp`; raises Invalid where it cannot be read as one."""
    try:
        return decoder(tp).decode(data)
    except Invalid:
        return _build(Raw(data), tp, "$")


def misfit(data: bytes, tp: Any) -> str | None:
    """What a peer could not read in a `tp` that we are about to send; None when it can read all of it."""
    try:
        decoder(tp).decode(data)
    except Invalid as exc:
        try:
            read = encode(_build(Raw(data), tp, "$"))
        except Invalid as worse:
            return str(worse)
        if msgspec.json.decode(read) != msgspec.json.decode(data):
            return str(exc)  # it would be read as something else
    return None


def unsendable(value: Any, tp: Any) -> str | None:
    """Why a value of an author's is not sent as a `tp`; None when it is one."""
    return misfit(encode(value), tp) or _has_bytes(value)


def _has_bytes(value: Any) -> str | None:
    """Bytes would be sent in Base64, and read as a text that nobody wrote."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) in _TEXTS_AND_NUMBERS:
            continue
        if isinstance(each, Struct):
            waiting += msgspec.structs.astuple(each)
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, bytes | bytearray | memoryview):
            return f"it holds bytes, {brief(repr(each))}; decode them to a text first"
    return None


_vouched: dict[int, tuple[Any, Any, Raw]] = {}  # by their identity, and so kept: values, their types, their bytes


def constant_result(value: T, tp: type[T]) -> T:
    """A constant that is given as a result over and over: checked and encoded now, and never again."""
    data = encode(value)
    assert misfit(data, tp) is None
    _vouched[id(value)] = value, tp, Raw(data)
    return value


def fitting(result: Any, tp: Any, handler: Any) -> Any:
    """A handler's result as bytes that can be read as a `tp`; raises TypeError, naming the handler, if not."""
    if (known := _vouched.get(id(result))) is not None and known[1] is tp:
        return known[2]
    if tp is Raw or tp is Any or isinstance(result, Raw):
        return {} if result is None else result
    data = b"{}" if result is None else encode(result)
    if wrong := misfit(data, tp) or _has_bytes(result):
        while isinstance(handler, functools.partial) and handler.args:
            handler = handler.args[0]  # what stands before the author's own
        who, wanted = getattr(handler, "__qualname__", "the handler"), getattr(tp, "__name__", tp)
        raise TypeError(f"{who} returned {brief(repr(result))}, which is no {wanted}: {wrong}")
    return Raw(data)


def decode_params(data: Raw, tp: Any) -> Any:
    """The params of a message, where null and nothing mean an empty object."""
    try:
        return decoder(tp).decode(data)
    except Invalid:
        return decode(data if data != _NULL else b"{}", tp)


def decode_result(data: Raw, tp: Any) -> Any:
    """A result, where peers in the wild answer null for an empty object or an empty list."""
    try:
        return decoder(tp).decode(data)
    except Invalid:
        if data != _NULL:
            return _build(Raw(data), tp, "$")
    fields = msgspec.structs.fields(tp) if isinstance(tp, type) and issubclass(tp, Struct) else ()
    lists = [f.encode_name for f in fields if _reading(f.type)[0] == "lenient"]
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
    # An id, which may be a text, is no number but what was written.
    if str not in typing.get_args(tp) and (whole := _whole_number(raw)) is not None:
        return _build(whole, tp, path)
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


def _whole_number(raw: Raw) -> Raw | None:
    """An integer that is written as a fraction or with an exponent, plainly: `1.0` is one, as is `1e3`."""
    text = bytes(raw).strip()
    is_plain = text.lstrip(b"-").isdigit()
    if is_plain or len(text) > 24 or not _FRACTION.fullmatch(text) or not float(text).is_integer():
        return None
    return Raw(b"%d" % int(float(text)))


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
            elif not field.has_fallback:
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
    def has_fallback(self) -> bool:
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
