"""The frame around a message: its members, and what can still be told of a frame that is none.

Peers print to the wire, cut lines off and spell members twice.  What a reader does about it is `rpc`'s; here is
how to find out.  An id is found without reading the rest: whatever carries one is about that request.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from . import codec
from .errors import LocalProtocolError
from .foundation.documents import Document, Json
from .framing import COUNTABLE, MAX_DEPTH, MAX_FRAME, SHALLOW, Oversize, TooDeep, check, check_depth, check_text
from .schema.base import RequestId

EMPTY, NULL = Raw(b"{}"), Raw(b"null")


class Envelope(Struct, gc=False):
    jsonrpc: str = ""
    id: RequestId | UnsetType = UNSET
    method: str | None = None
    params: Raw = EMPTY
    result: Raw = NULL
    error: Raw = NULL


# The envelope's tag puts `"jsonrpc":"2.0"` first on the wire.


class RequestFrame(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: int
    method: str
    params: Any


class Notification(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    method: str
    params: Any


class ResultFrame(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    result: Any


class ErrorBody(Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class ErrorFrame(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    error: ErrorBody


class CancelParams(Struct, rename="camel"):
    request_id: RequestId


read_envelope = msgspec.json.Decoder(Envelope).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[Raw]).decode
skim = msgspec.json.Decoder(Raw).decode  # raises Malformed for what is no JSON

MEMBERS = frozenset(Envelope.__struct_fields__)
TWICE = "a member of the message is there twice"
_KINDS = MEMBERS - {"jsonrpc", "id"}  # what says whether it asks or answers
_DECISIVE = _KINDS - {"params"}
_ENDS = {b"{": b"}", b"[": b"]"}
_CLOSING = (b"}", b"]")
_BEFORE_VALUE = (b"{", b"[", b",", b":")
_AFTER_VALUE = (b"}", b"]", b",", b":")
UNREAD = ()  # stands for a value that is no scalar, or cannot be read
LOOKED_AT = 16 * 1024  # bytes at either end of a frame that is no JSON
_ROOM = len(b',"id":1')  # what the shortest second member takes
_FIXED = len(b'{"jsonrpc":"2.0"}')
# Patterns for rare frames; re compiles them when they are first used.
_NAME = rb'(?s)[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*'
_END = rb"\s*}\s*"
_TOKEN = rb'(?s)\s*+("(?:[^"\\]++|\\.)*+"|[\[\]{}:,"]|[^\s\[\]{}:,"]++)'
_ESCAPED = rb"(?=\\(?:\\\\)*+(?!\\))"  # a quote in a reversed text, when an odd number of backslashes follows
_REVERSED = rb'(?s)\s*+("%s|"(?:[^"]++|"%s)*+"|[\[\]{}:,"]|[^\s\[\]{}:,"]++)' % (_ESCAPED, _ESCAPED)


def read_message(frame: bytes) -> Envelope:
    """The members of a frame, each there once; raises Invalid for what is no message, Malformed for no JSON."""
    if len(frame) >= COUNTABLE:
        message = _read_long(frame)
    else:
        if len(frame) > SHALLOW or not frame.isascii():
            check(frame)
        message = read_envelope(frame)
        if has_duplicates(frame, message):
            raise codec.Invalid(TWICE)
    if message.jsonrpc != "2.0":
        raise codec.Invalid("another version")
    return message


def _read_long(frame: bytes) -> Envelope:
    """As `read_message`, going through the whole of it as few times as possible."""
    check_text(frame)
    message = read_envelope(frame)
    if _fills_frame(frame, message):  # then all levels but the first are in there
        for payload in (message.params, message.result, message.error):
            check_depth(payload, 1)
    else:
        check_depth(Raw(frame.lstrip()))
        if has_duplicates(frame, message):
            raise codec.Invalid(TWICE)
    return message


def is_message(frame: bytes, expected: Envelope) -> bool:
    """Whether a frame is a message, and the very one that is expected."""
    try:
        return read_message(frame) == expected
    except msgspec.DecodeError:
        return False


def _fills_frame(frame: bytes, message: Envelope) -> bool:
    """Whether the members that were read leave no room in the frame for any other."""
    size = _FIXED
    if message.id is not UNSET:
        size += 6 + len(str(message.id))
    if message.method is not None:
        size += 12 + len(message.method)
    if message.params is not EMPTY:
        size += 10 + len(message.params)
    if message.result is not NULL:
        size += 10 + len(message.result)
    if message.error is not NULL:
        size += 9 + len(message.error)
    return len(frame) - size < _ROOM


def has_duplicates(frame: bytes, message: Envelope) -> bool:
    """Whether a member of the envelope is there twice, also one that is spelt with escapes.

    A second one adds two quotes at least to those of the members that a usual message has.
    """
    id = message.id
    quotes = 4 if id is UNSET else 8 if isinstance(id, str) else 6  # of jsonrpc and id
    if message.method is None:
        payload, absent = message.result, NULL
        quotes += 2
    else:
        payload, absent = message.params, EMPTY
        quotes += 6
    outside = frame.count(b'"') - bytes(payload).count(b'"')
    if payload is not absent and outside == quotes:
        return False
    return outside > codec.MAX_LISTED or _has_twice(frame)  # nobody has so many members


def _has_twice(frame: bytes) -> bool:
    """As `has_duplicates`, member by member."""
    at = frame.index(b"{") + 1
    for name, value in _read_members(frame).items():  # each once: a second one is found where the next should be
        if (found := re.compile(_NAME).match(frame, at)) is None or msgspec.json.decode(found[1]) != name:
            return True
        if not frame.startswith(bytes(value), found.end()):
            return True
        at = found.end() + len(value)
    return not re.compile(_END).fullmatch(frame, at)


def outline(frame: bytes | Oversize) -> Document:
    """The members of a frame that is no message: scalars as they are where they can be read, others as UNREAD."""
    if isinstance(frame, Oversize):
        return _peek(frame.head, frame.tail, is_all=False)
    try:
        if frame.count(b",") > codec.MAX_LISTED:
            return _peek(frame[:LOOKED_AT], frame[-LOOKED_AT:], is_all=False)
        return {name: _scalar(bytes(memoryview(value)[:LOOKED_AT])) for name, value in _read_members(frame).items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _peek(frame[:LOOKED_AT], frame[-LOOKED_AT:], len(frame) <= LOOKED_AT)


def in_batch(frame: bytes, most: int) -> list[Document]:
    """The outlines of the objects in an array."""
    if frame.count(b",") > codec.MAX_LISTED:
        return [outline(frame)]  # the first will do
    return [outline(bytes(item)) for item in _read_items(frame)[:most] if bytes(memoryview(item)[:1]) == b"{"]


def _peek(head: bytes, tail: bytes, is_all: bool) -> Document:
    """The members that an object shows: read from its beginning and, where that fails, from its end backwards."""
    if not head.lstrip().startswith((b"{", b"[")):
        return {}  # a program's words, though a message may be quoted among them
    first, is_sound = _read_forwards(head)
    if (is_all and is_sound) or ("id" in first and not _KINDS.isdisjoint(first)):
        return first  # where the line is merely cut off, its end is somewhere within the payload
    last = _read_backwards(tail)
    return first | last | {name: value for name, value in first.items() if value != UNREAD}


def _read_forwards(text: bytes) -> tuple[Document, bool]:
    """The members of an object up to where it is cut off, and whether nothing was wrong until there."""
    members: Document = {}
    levels: list[bytes] = []  # the brackets that are open
    top = 1 + text.lstrip().startswith(b"[")  # of a batch, the first message
    name, before, is_sound = b"", b":", True
    for token in re.finditer(_TOKEN, text):
        word = token[1]
        is_due = before in _BEFORE_VALUE and not (before in _ENDS and word in _CLOSING)
        is_sound &= is_due == (word not in _AFTER_VALUE)
        if b":" in (word, before) and len(levels) == top:
            label = str(_scalar(name) or "")
            is_cut = word == b'"' or (token.end() == len(text) and word not in _ENDS)
            if before == b":" and not is_cut:
                members[label] = _scalar(word)
                if members.get("jsonrpc") == "2.0" and "id" in members and not _DECISIVE.isdisjoint(members):
                    return members, True
            elif label in MEMBERS:
                members[label] = UNREAD
        if word == b'"':
            return members, False  # a string without an end
        if word in _ENDS:
            levels.append(word)
        elif word in _CLOSING:
            is_sound &= _ENDS[levels.pop()] == word
            if len(levels) < top:
                return members, is_sound and not text[token.end() :].strip()
        elif before in (b"{", b",") and len(levels) == top:
            name = word
        before = word
    return members, is_sound


def _read_backwards(text: bytes) -> Document:
    """The last members of an object, back to where it is cut off."""
    members: Document = {}
    depth, value, is_named = 0, b"", False
    for token in re.finditer(_REVERSED, text[::-1]):
        match word := token[1][::-1]:
            case b'"':
                break
            case b"}" | b"]":
                depth += 1
                value = b"{"
            case b"{" | b"[":
                depth -= 1
            case b":" | b",":
                is_named = depth == 1 and word == b":"
            case _ if depth == 1 and is_named:
                members.setdefault(str(_scalar(word) or ""), _scalar(value))
            case _ if depth == 1:
                value = word
        if depth < 1:
            break  # it does not end as an object does, or here is its beginning
    return members


def _scalar(word: bytes) -> Json:
    """A scalar's value, or UNREAD."""
    if word[:1] in (b"{", b"["):
        return UNREAD
    try:
        value: Json = msgspec.json.decode(word)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNREAD
    return value


def meant(id: object) -> int | None:
    """The number of ours that an id stands for, also one that came back as a string or a float."""
    if isinstance(id, float) and id.is_integer():
        return int(id)
    if isinstance(id, str) and len(id) < 20 and id.isdecimal() and str(int(id)) == id:
        return int(id)
    return id if type(id) is int else None


def speaks_rpc(members: Mapping[str, object]) -> bool:
    """Whether members are those of a message, though a bad one, and not of some program's log line."""
    return members.get("jsonrpc") == "2.0" or ("id" in members and MEMBERS.issuperset(members))


def complaint(members: Mapping[str, object]) -> str:
    """What is wrong with an object that is no message, in words the peer's author can act on."""
    if members.get("jsonrpc") != "2.0":
        return '"jsonrpc" must be "2.0"'
    if "method" in members and not isinstance(members["method"], str):
        return '"method" must be a string'
    if "id" in members and type(members["id"]) not in (int, str):
        return '"id" must be a string or an integer'
    if "method" not in members and "result" not in members and "error" not in members:
        return "it has neither a method nor a result"
    return TWICE


def sendable(message: Struct) -> bytes:
    """The frame of a message; what we send is held to what we accept, or the peer drops it and nobody knows."""
    frame = codec.encode(message)
    if len(frame) <= SHALLOW:
        return frame
    if len(frame) > MAX_FRAME:
        raise LocalProtocolError(
            f"a message of {len(frame)} bytes is too large to be sent; {MAX_FRAME} are allowed"
        )
    if frame.count(b"{") + frame.count(b"[") > MAX_DEPTH:
        try:
            check(frame)
        except TooDeep as exc:
            raise LocalProtocolError(f"a message cannot be sent: it is {exc}") from None
    return frame


def passed(data: bytes) -> Raw:
    """Params that are passed on as they came, on one line."""
    if skim(data) and data[:1] not in (b"{", b"["):
        raise codec.Invalid("Expected `object` - at `$`")
    return Raw(data.replace(b"\n", b" "))


def verbatim(start: int, end: int, frame: bytes) -> bytes:
    """A frame that is passed on, once its params were looked through."""
    if skim(memoryview(frame)[start:end]) and frame[start : start + 1] not in (b"{", b"["):
        raise codec.Invalid("Expected `object` - at `$`")
    return frame
