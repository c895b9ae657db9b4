"""Frames nobody should send, from a seed: mutated, shaped by the schema, raw, and JSON on the edge."""

import functools
import random
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec import Raw, Struct, UnsetType

from dragoman.events import Method
from dragoman.roles import AgentRole, ClientRole, methods
from dragoman.schema.base import Shape

from .by_hand import INITIALIZE, note, request, result, update

# Values a parser may trip over; most are not JSON, and some only look as if they were not.
SNIPPETS = (
    *("", " ", "[", "]", "{", "}", ",", ":", '"', "[]", "{}", "null", "true", "false", "nul", "TRUE", "tru\0"),
    *("0", "-0", "-", "+1", "01", "1.", ".1", "1e", "1e+", "1E5", "0x10", "1_000", "-01", "--1", "1e999", "-1e999"),
    *("NaN", "-NaN", "Infinity", "-Infinity", "nan", "9" * 400, "9" * 5000, "-" + "9" * 5000, "0." + "1" * 3000),
    *("18446744073709551616", "-9223372036854775809", "1e-400", "123123e100000", "[1,]", "[,1]", "[1 2]", "[1"),
    *('{"a":1,}', '{"a"}', '{"a":}', "{a:1}", "{'a':1}", '{"a":1 "b":2}', '{"a":1,"a":2}', "{1:1}", '{"a":1}}'),
    *('"\\x"', '"\\u"', '"\\u12"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud800\\ud800"', '"\\uD83D\\uDE00"'),
    *(
        '"\\u0000"',
        '"\t"',
        '"\n"',
        '"\r"',
        '"a',
        "'a'",
        '"\\',
        '"\\"',
        '"\u2028\u2029"',
        '"\U0010ffff"',
        '"\ufeff"',
    ),
    *("//x", "/*x*/", "#x", "<x/>", "[]x", "{}x", "1 2", "\ufeff1", "\ufeff\ufeff{}", '{"":{"":{}}}', '[["x"]]'),
    *("[" * 200, '{"a":' * 200, "[" * 200 + "]" * 200, '[{"a":' * 100 + "1" + "}]" * 100, "\v1", "\f1", "\u00a01"),
    *('{"__proto__":{}}', '{"id":1,"level":"info"}', '{"jsonrpc":"2.0"}', '[{"jsonrpc":"2.0"}]', '{"id":[]}'),
)
BYTES = (
    *(b"\x00", b"\n", b"\r", b"\x1f", b'"', b"\\", b"\x7f", b"\x80", b"\xbf", b"\xc0\xaf", b"\xc3", b"\xe2\x82"),
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80", b"\xff\xfe"),
)

VALID: tuple[dict[str, Any], ...] = (
    request(1, "initialize", INITIALIZE),
    request(2, "session/new", {"cwd": "/", "mcpServers": [{"name": "m", "command": "/m", "args": [], "env": []}]}),
    request("three", "session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": 'hi "there"\n'}]}),
    request(4, "session/load", {"sessionId": "s1", "cwd": "/", "mcpServers": []}),
    request(5, "session/set_config_option", {"sessionId": "s1", "configId": "c", "type": "boolean", "value": True}),
    request(6, "authenticate", {"methodId": "m", "_meta": {"traceparent": "00-1-2-01"}}),
    request(7, "fs/read_text_file", {"sessionId": "s1", "path": "/a", "line": 1, "limit": 10}),
    request(8, "terminal/create", {"sessionId": "s1", "command": "ls", "args": ["-l"], "env": []}),
    request(
        9,
        "session/request_permission",
        {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "t1", "title": "Edit", "kind": "edit", "status": "pending"},
            "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}],
        },
    ),
    request(None, "_echo", {"a": [1, 2.5, None, True, {"id": 1, "method": "x"}]}),
    note("session/cancel", {"sessionId": "s1"}),
    note("$/cancel_request", {"requestId": 2}),
    update("s1", "a chunk of \u2028 text \U0001f600"),
    note("session/update", {"sessionId": "s1", "update": {"sessionUpdate": "plan", "entries": []}}),
    note(
        "session/update",
        {"sessionId": "s1", "update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": None}},
    ),
    result(1, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}),
    result(2, {"sessionId": "s1"}),
    result(3, {"stopReason": "end_turn"}),
    {"jsonrpc": "2.0", "id": 4, "error": {"code": -32000, "message": "log in first", "data": {"a": 1}}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
)


def frames(number: int, count: int) -> Iterator[bytes]:
    """Frames from a seed: 40 % mutated, 30 % shaped by the schema, 20 % raw bytes, 10 % snippets of bad JSON."""
    dice = random.Random(number)
    valid = [msgspec.json.encode(message) for message in VALID]
    shaped = shaped_frames(number, min(max(count // 10, 100), 20_000))
    for _ in range(count):
        kind = dice.random()
        if kind < 0.4:
            yield mutated(dice.choice(valid), dice)
        elif kind < 0.7:
            yield dice.choice(shaped)
        elif kind < 0.9:
            yield dice.randbytes(int(dice.paretovariate(0.5)) % 2000)
        else:
            yield spliced(dice.choice(valid), dice)


def mutated(frame: bytes, dice: random.Random) -> bytes:
    """A frame with one to four things wrong with it."""
    for _ in range(dice.randint(1, 4)):
        at, to = sorted(dice.randrange(len(frame) + 1) for _ in range(2))
        match dice.randrange(7):
            case 0:
                frame = frame[:at]
            case 1:
                frame = frame[:at] + frame[to:]
            case 2:
                frame = frame[:to] + frame[at:]
            case 3:
                frame = frame[:at] + dice.choice(BYTES) + frame[at:]
            case 4:
                frame = frame[:at] + bytes([dice.randrange(256)]) + frame[at + 1 :]
            case 5:
                frame = frame.replace(dice.choice((b'"', b"{", b":", b"1", b"id", b"2.0")), b"", 1)
            case 6:
                frame = frame[:at] + dice.choice(SNIPPETS).encode() + frame[to:]
    return frame


def spliced(frame: bytes, dice: random.Random) -> bytes:
    """A snippet by itself, or in the place of one of a frame's values."""
    snippet = dice.choice(SNIPPETS).encode()
    if dice.random() < 0.3:
        return snippet
    message = msgspec.json.decode(frame)
    member = dice.choice(list(message))
    inside = message[member]
    if isinstance(inside, dict) and inside and dice.random() < 0.7:
        message[member] = {**inside, dice.choice(list(inside)): Raw(snippet)}
    else:
        message[member] = Raw(snippet)
    return msgspec.json.encode(message)


# Shaped by the schema: the right members, mostly with values that fit

JUNK = st.sampled_from([None, True, 0, -1, 2**64, 1.5, "", "x", [], {}, [1], {"a": 1}])


def shaped_frames(number: int, count: int) -> list[bytes]:
    """Requests, notifications and answers of both roles, with values the schema allows and others."""
    found: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of([messages(m) for role in (AgentRole, ClientRole) for m in methods(role).values()]))
    def collect(message: dict[str, Any]) -> None:
        found.append(msgspec.json.encode(message))

    collect()
    return found


def messages(method: Method) -> st.SearchStrategy[dict[str, Any]]:
    asked = st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": st.just(method.name), "params": shaped(method.params)},
        optional={"id": st.integers(0, 9) | st.text(max_size=3) | JUNK},
    )
    answered = st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": st.integers(0, 9)},
        optional={"result": shaped(method.result), "error": JUNK},
    )
    return asked | answered


@functools.cache
def shaped(tp: Any) -> st.SearchStrategy[Any]:
    """JSON values of a type of the schema, now and then one that does not fit."""
    fitting = st.deferred(lambda: _fitting(tp))
    return st.one_of(fitting, fitting, fitting, fitting, fitting, JUNK)


def _fitting(tp: Any) -> st.SearchStrategy[Any]:
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if isinstance(tp, type) and issubclass(tp, Shape):
        return st.one_of([_fitting(arm) for arm in tp.arms])
    if isinstance(tp, type) and issubclass(tp, Struct):
        return _object(tp)
    if origin is typing.Annotated:
        return _fitting(args[0])
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is Sequence:
        return st.lists(shaped(args[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(st.text(max_size=5), shaped(args[1]), max_size=3)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_fitting(arm) for arm in args if arm is not UnsetType])
    plain = {str: st.text(max_size=20), int: st.integers(0, 2**31), bool: st.booleans(), float: st.floats(0, 1e9)}
    return plain.get(tp, JUNK)


def _object(tp: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    config, fields = tp.__struct_config__, msgspec.structs.fields(tp)
    required = {field.encode_name: shaped(field.type) for field in fields if field.required}
    optional = {field.encode_name: shaped(field.type) for field in fields if not field.required}
    if config.tag_field:
        required[config.tag_field] = st.just(config.tag)
    return st.fixed_dictionaries(required, optional=optional)
