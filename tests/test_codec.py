"""Bytes to values and back: what the parser is guarded from, and what is always sent as one clean line."""

import json
import sys
from types import FrameType
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from torture.lines import carry
from torture.nesting import deep, nested

from dragoman import codec
from dragoman import schema as s
from dragoman.framing import TooDeep, check


def test_any_payload_is_one_line_and_comes_back_as_it_was() -> None:
    carry(2000, number=4)


@pytest.mark.parametrize("depth", [1, 127, 128])
def test_a_value_as_deep_as_the_limit_passes(depth: int) -> None:
    check(bytes(deep(depth)))


@pytest.mark.parametrize("form", ["arrays", "objects", "mixed"])
@pytest.mark.parametrize("depth", [130, 1000, 1_000_000])
def test_a_deeper_one_does_not(form: str, depth: int) -> None:
    with pytest.raises(codec.Malformed, match="deeper than 128"):
        check(nested(form, depth, closed=True))


@pytest.mark.parametrize(
    "text", ["[" * 1000, '{"a":' * 1000, '\\"[' * 500, "\\\\" * 3 + "[" * 200, '\\\\\\"' + "{" * 200]
)
def test_brackets_in_a_string_are_not_depth(text: str) -> None:
    check(json.dumps({"text": text, "more": [text, [text]]}).encode())


def test_brackets_after_an_escaped_backslash_are_depth() -> None:
    with pytest.raises(codec.Malformed):
        check(b'["\\\\",' + b"[" * 500)


def test_many_brackets_side_by_side_are_not_depth() -> None:
    check(b"[" + b"[[]]," * 100_000 + b"[]]")


def test_depth_is_found_far_into_a_long_frame() -> None:
    with pytest.raises(codec.Malformed):
        check(b'["' + b"x" * 200_000 + b'",' + b"[" * 500)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80"])
def test_what_is_not_utf8_is_refused_with_its_place(bad: bytes) -> None:
    with pytest.raises(codec.Malformed, match="not UTF-8 at byte 2"):
        check(b'{"' + bad + b'":1}')


@pytest.mark.parametrize("mark", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_a_number_no_json_has_is_no_value(mark: str) -> None:
    with pytest.raises(codec.Malformed):
        codec.decode(f'{{"protocolVersion":{mark}}}'.encode(), s.InitializeRequest)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_no_json_has_is_never_sent(number: float) -> None:
    assert codec.encode({"x": number}) == b'{"x":null}'


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("fine \U0001f600", "fine \U0001f600"),
    ],
)
def test_a_lone_surrogate_is_never_sent(sent: str, arrives: str) -> None:
    block = s.TextContent(text=sent, meta={sent: [sent]})
    frame = codec.encode(block)
    assert json.loads(frame.decode()) == {"type": "text", "text": arrives, "_meta": {arrives: [arrives]}}


def test_a_lone_surrogate_does_not_spoil_bytes_that_are_passed_on() -> None:
    frame = codec.encode({"text": "\ud800", "kept": Raw(b'{"as":  "it was"}')})
    assert json.loads(frame) == {"text": "\ufffd", "kept": {"as": "it was"}}


@pytest.mark.parametrize(
    ("received", "read"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud800"', "\\ud800"),
        (rb'"\\\udc00"', "\\\ufffd"),
        (b'\xef\xbb\xbf"x"', "x"),
    ],
)
def test_a_frame_a_strict_parser_refuses_is_mended(received: bytes, read: str) -> None:
    assert msgspec.json.decode(codec.mend(received)) == read


@pytest.mark.parametrize("data", [b"null", b"{}", b'{"cwd":null}'])
def test_params_that_are_null_are_an_empty_object(data: bytes) -> None:
    assert codec.decode_params(Raw(data), s.ListSessionsRequest) == s.ListSessionsRequest()


def test_params_that_lack_what_is_required_are_refused_with_its_name() -> None:
    with pytest.raises(codec.Invalid, match="cwd"):
        codec.decode_params(Raw(b"null"), s.NewSessionRequest)


def test_a_result_that_is_null_is_an_empty_object_or_list() -> None:
    assert codec.decode_result(Raw(b"null"), s.ListSessionsResponse) == s.ListSessionsResponse(sessions=[])
    assert codec.decode_result(Raw(b"null"), s.SetSessionModeResponse) == s.SetSessionModeResponse()


def test_a_result_that_lacks_what_is_required_is_refused() -> None:
    with pytest.raises(codec.Invalid):
        codec.decode_result(Raw(b"null"), s.NewSessionResponse)


def test_reading_twice_as_long_a_list_of_items_that_do_not_fit_is_twice_the_work() -> None:
    """Leniency reads item by item; it may not take a long list apart again for each of them."""
    assert bytes_read_of(bad_items=400) < 3 * bytes_read_of(bad_items=200)


def bytes_read_of(bad_items: int) -> int:
    """How many bytes are handed to a parser in all while such a list is read."""
    bad, good = (b'{"type":"content","content":{"type":"text","text":%s}}' % text for text in (b"5", b'"kept"'))
    frame = b'{"toolCallId":"t","title":"x","content":[' + b",".join([*[bad] * bad_items, good]) + b"]}"
    read = 0

    def count(caller: FrameType, event: str, called: Any) -> None:
        nonlocal read
        if event == "c_call" and called.__name__ == "decode":
            read += max(len(value) for value in caller.f_locals.values() if isinstance(value, bytes | Raw))

    sys.setprofile(count)
    try:
        content = codec.decode(frame, s.ToolCall).content
    finally:
        sys.setprofile(None)
    assert content == [s.Content(content=s.TextContent(text="kept"))]
    return read


@pytest.mark.parametrize("frame", [b'{"a":%s,"a":1}', b'{"x":{"a":%s,"a":1}}', b'{"x":[{"\\u0061":%s,"a":"%s"}]}'])
def test_a_depth_hidden_by_a_second_member_of_the_same_name_is_found(frame: bytes) -> None:
    hidden = b"[" * 500 + b"]" * 500
    with pytest.raises(TooDeep):
        check(frame.replace(b"%s", hidden, 1).replace(b"%s", b"long" * 5000))


@pytest.mark.parametrize("text", ["[" * 5000, "\\" + "[" * 5000, '\\"' + "{" * 5000, '"' * 3 + "[" * 5000])
@pytest.mark.parametrize("depth", [1, 7, 120])
def test_brackets_in_a_text_are_no_nesting(text: str, depth: int) -> None:
    check(b"[" * depth + codec.encode({"text": text}) + b"]" * depth)
