"""The frame around a message: its members, and what can still be told of a frame that is none.

Peers print to the wire, cut lines off and spell members twice.  What a reader does about it is `rpc`'s; here is
how to find out.
"""

import contextlib
import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

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


class Request(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: int
    method: str
    params: Any


class Notification(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    method: str
    params: Any


class Result(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    result: Any


class Error(Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class Failure(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    error: Error


class CancelParams(Struct, rename="camel"):
    request_id: RequestId


read_envelope = msgspec.json.Decoder(Envelope).decode
_MEMBERS = tuple(f'"{name}"'.encode() for name in Envelope.__struct_fields__)
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
# Patterns for rare frames; re compiles them when they are first used.
_NAME = rb'(?s)[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*'
_END = rb"\s*}\s*"
_TOKENS = rb'(?s)"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+'


def has_duplicates(frame: bytes) -> bool:
    """Whether an object has a member of the envelope twice, also one that is spelt with escapes."""
    if b"\\u00" not in frame and all(frame.count(name) < 2 for name in _MEMBERS):
        return False
    at = frame.index(b"{") + 1
    for name, value in _read_members(frame).items():  # each once: a second one is found where the next should be
        if (found := re.compile(_NAME).match(frame, at)) is None or msgspec.json.decode(found[1]) != name:
            return True
        if not frame.startswith(bytes(value), found.end()):
            return True
        at = found.end() + len(value)
    return not re.compile(_END).fullmatch(frame, at)


def peek(head: bytes) -> dict[str, Any]:
    """The members of an object that is cut off, read as far as it goes: scalars as they are, others as None."""
    members: dict[str, Any] = {}
    depth, name, tokens = 0, "", re.finditer(_TOKENS, head)
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        for token in tokens:
            text = token[0]
            if text in (b"{", b"["):
                depth += 1
            elif text in (b"}", b"]"):
                depth -= 1
            elif depth == 1 and text == b":":
                value = next(tokens, None)
                if value is None or (value.end() == len(head) and value[0] not in (b"{", b"[")):
                    break  # cut off in the middle
                opens = value[0] in (b"{", b"[")
                members[name] = None if opens else msgspec.json.decode(value[0])
                depth += opens
            elif depth == 1 and text.startswith(b'"'):
                name = msgspec.json.decode(text)
    return members


def speaks_rpc(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, dict) and item.get("jsonrpc") == "2.0" for item in items)


def complaint(value: dict[str, Any]) -> str:
    """What is wrong with an object that is no message, in words the peer's author can act on."""
    if value.get("jsonrpc") != "2.0":
        return '"jsonrpc" must be "2.0"'
    if not isinstance(value.get("method"), str):
        return '"method" must be a string'
    if "id" in value and type(value["id"]) not in (int, str):
        return '"id" must be a string or an integer'
    return "a member of the message is there twice"
