"""One JSON-RPC peer without I/O: ids, envelopes, answers owed and expected, whatever a frame looks like."""

import itertools
import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test
from msgspec import Raw, Struct
from patience import PATIENCE
from torture.by_hand import cancel_request, note, request, result
from torture.channel import Channel, Lifecycle, run_settings
from torture.nesting import SHORT_STACK, deep, meaning, nest, nested

from dragoman import InternalError, InvalidParams, LocalProtocolError, RemoteProtocolError, RpcError, codec, framing
from dragoman.events import Batch, Call, Cancel, Method, Noise, Note, Reply
from dragoman.framing import HEAD, Oversize
from dragoman.rpc import Peer


class Asked(Struct):
    x: int = 0


ASK = Method("ask", Asked, Any)
TELL = Method("tell", Asked, is_request=False)
PASS = Method("pass", Raw, Raw)

BOTH = pytest.mark.parametrize("quiet", [False, True], ids=["talkative", "quiet"])


def peer(*, quiet: bool = False, pending: int = 0, max_owed: int = 100) -> Peer:
    """A peer that answers `ask` and `tell`, with some calls of its own on their way."""
    made = Peer(quiet=quiet, max_owed=max_owed)
    made.answer({"ask": ASK, "pass": PASS}, {"tell": TELL})
    for _ in range(pending):
        made.call(ASK, {})
    made.take()
    return made


def frame(message: Any) -> bytes:
    return msgspec.json.encode(message)


def answers(by: Peer) -> list[dict[str, Any]]:
    return [msgspec.json.decode(answer) for answer in by.take()]


def codes(by: Peer) -> list[tuple[Any, int]]:
    """What was answered with an error: to which id, and with which code."""
    return [(answer["id"], answer["error"]["code"]) for answer in answers(by)]


# The envelope (T05)

ABSENT = Raw(b"")
LEGAL_IDS = (0, 1, -1, 2**53 + 1, 2**63 - 1, "", "1", "\u00e9", None)
IDS = (ABSENT, *LEGAL_IDS, True, 1.5, [], {})
METHODS = (ABSENT, None, "ask", "tell", "nobody/knows", "$/nobody/knows", 7, {})
PARAMS = (ABSENT, None, {}, {"x": 1}, [], [1], "s", 5)
FITTING = (ABSENT, None, {}, {"x": 1})
OUTCOMES = (
    {},
    {"result": {"y": 1}},
    {"error": {"code": 5, "message": "no"}},
    {"result": {"y": 1}, "error": {"code": 5, "message": "no"}},
)


def verdict(id: Any, method: Any, params: Any, outcome: dict[str, Any], quiet: bool) -> tuple[str, Any, int | None]:
    """What a message must mean: what it is, and the id and code it is refused with."""
    legal = id is not ABSENT and type(id) in (int, str, type(None))
    if isinstance(method, str):
        if id is ABSENT:
            is_ours = method == "tell" and any(params is fitting or params == fitting for fitting in FITTING)
            return ("note" if is_ours else "nothing"), None, None
        if not legal:
            return "refused", None, -32600
        if method != "ask":
            return "refused", id, -32601
        fits = any(params is fitting or params == fitting for fitting in FITTING)
        return ("call", None, None) if fits else ("refused", id, -32602)
    if method is ABSENT or method is None:
        if params is not ABSENT and not outcome:
            return "refused", (id if type(id) in (int, str) else None), -32600
        if (type(id) is int and id == 1) or (id == "1" and outcome):
            return "reply", None, None
        is_response = bool(outcome) or legal or id is ABSENT
        if is_response or quiet:
            return "nothing", None, None
        return "refused", None, -32600
    return "refused", (id if type(id) in (int, str) else None), -32600


@BOTH
def test_every_envelope_there_can_be_has_its_verdict(quiet: bool) -> None:
    tried = 0
    for id, method, params, outcome in itertools.product(IDS, METHODS, PARAMS, OUTCOMES):
        members = {"jsonrpc": "2.0", "id": id, "method": method, "params": params, **outcome}
        message = {name: value for name, value in members.items() if value is not ABSENT}
        subject = peer(quiet=quiet, pending=1)
        event = subject.receive(frame(message))
        found = {Call: "call", Note: "note", Reply: "reply"}.get(type(event), "nothing")
        refusals = codes(subject)
        expected, refused_id, code = verdict(id, method, params, outcome, quiet)
        if expected == "refused":
            assert refusals == [(refused_id, code)], message
            assert type(refusals[0][0]) is type(refused_id), message
        else:
            assert (found, refusals) == (expected, []), message
        tried += 1
    assert tried == 14 * 8 * 8 * 4


@pytest.mark.parametrize("version", ["1.0", "2", "2.00", "", None, 2.0, 2, True, [], {}])
@pytest.mark.parametrize("message", [note("tell", {"x": 1}), request(1, "ask", {"x": 1}), result(1, {})])
@BOTH
def test_a_message_of_another_json_rpc_is_none_of_ours(version: Any, message: dict[str, Any], quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=1)
    event = subject.receive(frame({**message, "jsonrpc": version}))
    if "method" not in message:
        assert isinstance(event, Reply)
        assert isinstance(event.error, RemoteProtocolError)
        assert codes(subject) == []
        return
    assert isinstance(event, Noise)
    assert codes(subject) == ([] if quiet and "id" not in message else [(message.get("id"), -32600)])


@pytest.mark.parametrize("padding", range(30))
def test_a_notification_that_does_not_say_its_version_is_ignored_whatever_its_length(padding: int) -> None:
    line = b'{"method":"tell","params":{"x":1}' + b" " * padding + b"}"
    assert isinstance(peer(quiet=True).receive(line), Noise)


@pytest.mark.parametrize("member", ["jsonrpc", "id", "method", "params", "result", "error"])
@pytest.mark.parametrize("escaped", [False, True])
def test_a_member_that_is_there_twice_is_refused(member: str, escaped: bool) -> None:
    message = {"jsonrpc": "2.0", "id": 5, "method": "ask", "params": {"x": 1}, "result": {}, "error": None}
    again = f"\\u{ord(member[0]):04x}{member[1:]}" if escaped else member
    line = frame(message)[:-1] + f',"{again}":{json.dumps(message[member])}}}'.encode()
    subject = peer()
    assert isinstance(subject.receive(line), Noise)
    (refusal,) = answers(subject)
    assert refusal["error"]["code"] == -32600
    assert refusal["id"] == 5


def test_a_member_twice_in_a_notification_is_refused() -> None:
    subject = peer()
    line = b'{"jsonrpc":"2.0","method":"tell","params":{"x":1},"params":{"x":2}}'
    assert isinstance(subject.receive(line), Noise)
    assert codes(subject) == [(None, -32600)]


def test_members_of_the_params_may_be_called_as_they_like() -> None:
    meta = {"id": 1, "method": "x", "result": {"id": [{"id": 1}]}, "jsonrpc": "1.0", "error": '"id":1,"id":2'}
    event = peer().receive(frame(request(5, "pass", meta)))
    assert isinstance(event, Call)
    assert msgspec.json.decode(event.params) == meta


def test_looking_for_a_second_member_does_not_take_a_long_frame_apart() -> None:
    """Tool calls are full of members called id; an honest frame of megabytes must not hold up its neighbours."""
    rows = [{"id": number, "name": "row"} for number in range(200_000)]
    line = frame(request(5, "pass", {"rows": rows}))
    subject, started = peer(), time.process_time()
    assert isinstance(subject.receive(line), Call)
    assert time.process_time() - started < 0.5


def test_members_nobody_knows_are_ignored() -> None:
    assert isinstance(peer().receive(frame({**request(5, "ask"), "future": {"a": 1}})), Call)


# Ids


@pytest.mark.parametrize("id", [*LEGAL_IDS, 2**64, -(2**63) - 1, "x" * 1000, '"', "\U0001f600"])
def test_an_id_comes_back_as_it_was(id: Any) -> None:
    subject = peer()
    event = subject.receive(frame(request(id, "ask")))
    assert isinstance(event, Call)
    subject.reply(event.key, {"y": 1})
    (answer,) = answers(subject)
    assert answer["id"] == id
    assert type(answer["id"]) is type(id)


def test_one_and_the_string_one_are_two_ids() -> None:
    subject = peer()
    first, second = (subject.receive(frame(request(id, "ask"))) for id in (1, "1"))
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert subject.receive(frame(cancel_request("1"))) == Cancel(second.key)
    assert subject.receive(frame(cancel_request(1))) == Cancel(first.key)
    assert isinstance(subject.receive(frame(cancel_request(True))), Noise)


@pytest.mark.parametrize("id", ["01", "1.0", " 1", "\u0661", True, 1.5, [1], {"1": 1}, None, 2, 0, "2", 2.0])
@pytest.mark.parametrize("outcome", OUTCOMES[1:3])
@BOTH
def test_a_response_answers_only_the_call_with_its_very_id(id: Any, outcome: dict[str, Any], quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=1)
    assert isinstance(subject.receive(frame({"jsonrpc": "2.0", "id": id, **outcome})), Noise)
    assert answers(subject) == []
    assert subject.receive(frame(result(1, {"y": 2}))) == Reply(1, {"y": 2})


def test_two_requests_with_one_id_are_both_answered() -> None:
    subject = peer()
    first, second = (subject.receive(frame(request(5, "ask", {"x": x}))) for x in (1, 2))
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert subject.receive(frame(cancel_request(5))) == Cancel(first.key)
    subject.fail(first.key, InvalidParams())
    subject.reply(second.key, {"of": second.params.x})
    assert [answer.get("result", "error") for answer in answers(subject)] == ["error", {"of": 2}]


def test_both_sides_may_use_one_id_at_once() -> None:
    subject = peer(pending=1)
    theirs = subject.receive(frame(request(1, "ask")))
    assert isinstance(theirs, Call)
    assert subject.receive(frame(result(1, {"y": 1}))) == Reply(1, {"y": 1})
    subject.reply(theirs.key, {})
    assert answers(subject) == [result(1, {})]


# Responses that are late, twice, or no responses at all


@BOTH
def test_a_second_response_is_dropped(quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=2)
    assert isinstance(subject.receive(frame(result(1, {}))), Reply)
    assert isinstance(subject.receive(frame(result(1, {}))), Noise)
    assert answers(subject) == []


def test_a_response_to_a_cancelled_call_is_dropped() -> None:
    subject = peer(pending=1)
    subject.cancel(1)
    assert answers(subject) == [cancel_request(1)]
    assert isinstance(subject.receive(frame(result(1, {}))), Noise)
    assert answers(subject) == []


@pytest.mark.parametrize("id", ["1", 1.0])
@pytest.mark.parametrize("outcome", OUTCOMES[1:])
@BOTH
def test_an_answer_whose_id_came_back_as_another_type_fails_its_call(id: Any, outcome: Any, quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=2)
    event = subject.receive(frame({"jsonrpc": "2.0", "id": id, **outcome}))
    assert isinstance(event, Reply)
    assert event.id == 1
    assert isinstance(event.error, RemoteProtocolError)
    assert answers(subject) == []
    assert isinstance(subject.receive(frame(result(1, {}))), Noise), "it had its one outcome"


@pytest.mark.parametrize(
    "members",
    [
        {"error": "no"},
        {"error": []},
        {"error": 5},
        {"error": True},
        {"error": {}},
        {"error": {"code": 1}},
        {"error": {"message": "x"}},
        {"error": {"code": "1", "message": "x"}},
        {"error": {"code": 1, "message": 5}},
        {"error": {"code": 1.5, "message": "x"}},
        {"result": {}, "error": {"code": 1, "message": "x"}},
    ],
    ids=lambda members: json.dumps(members),
)
@BOTH
def test_a_malformed_error_fails_its_call_and_is_never_answered(members: dict[str, Any], quiet: bool) -> None:
    """It is the answer: there will be no other."""
    subject = peer(quiet=quiet, pending=1)
    event = subject.receive(frame({"jsonrpc": "2.0", "id": 1, **members}))
    assert isinstance(event, Reply)
    assert isinstance(event.error, RemoteProtocolError)
    assert "ask" in str(event.error)
    assert answers(subject) == []
    assert isinstance(subject.receive(frame(result(1, {}))), Noise), "it had its one outcome"


@pytest.mark.parametrize("members", [{}, {"result": None}, {"error": None}, {"result": None, "error": None}])
def test_a_response_that_holds_nothing_is_an_empty_one(members: dict[str, Any]) -> None:
    assert peer(pending=1).receive(frame({"jsonrpc": "2.0", "id": 1, **members})) == Reply(1, None)


def test_an_error_of_any_code_arrives_with_all_it_says() -> None:
    for code in (-32700, -32000, 0, 7, 2**31 - 1, -(2**31)):
        error = {"code": code, "message": "why", "data": {"more": [1]}}
        event = peer(pending=1).receive(frame({"jsonrpc": "2.0", "id": 1, "error": error}))
        assert isinstance(event, Reply)
        assert isinstance(event.error, RpcError)
        assert (event.error.code, event.error.message, event.error.data) == (code, "why", {"more": [1]})


def test_a_result_that_does_not_fit_fails_its_call() -> None:
    subject = Peer()
    subject.call(Method("ask", Any, Asked), {})
    event = subject.receive(frame(result(1, {"x": "no number"})))
    assert isinstance(event, Reply)
    assert event.result == Asked()  # an optional member falls back to its default
    subject.call(Method("ask", Any, dict[str, int]), {})
    event = subject.receive(frame(result(2, {"x": "no number"})))
    assert isinstance(event, Reply)
    assert isinstance(event.error, RemoteProtocolError)


def test_a_response_nested_too_deep_fails_its_call() -> None:
    """Its sender believes to have answered: there will be no other answer."""
    event = peer(pending=1).receive(frame(result(1, deep(500))))
    assert isinstance(event, Reply)
    assert isinstance(event.error, RemoteProtocolError)


# Frames that are no messages


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1.5, garbage',
        b'{"jsonrpc":"2.0","id":true,"method":"ask"',
        b'{"jsonrpc":7,"id":1',
        b'{"jsonrpc":"2.0","method":[],"params":{"a":\\}}',
        b'{"jsonrpc":"2.0","id":{},"method":"ask","params":nope}',
        b"[1,2",
        b'[{"jsonrpc":"2.0"},',
        b"5 6",
        b'"x" "y"',
        b"true!",
        b'{"id":[],"\xff":1}',
        b"\xef\xbb\xbf" * 3000 + b"{}",
        b'{"id":1,"x":' + b"9" * 5000 + b"}",
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ask"}',
        b'{"jsonrpc":"2.0","id":[1e999],"method":"ask"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ask","params":{"x":"\\ud800"}}',
    ],
    ids=lambda line: repr(line[:30]) if line.isascii() else "byte order marks",
)
@BOTH
def test_a_frame_wrong_in_two_ways_at_once_is_still_only_noise(line: bytes, quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=1)
    assert isinstance(subject.receive(line), Noise)
    assert all(id in (None, 1) and code in (-32700, -32600) for id, code in codes(subject))
    assert isinstance(subject.receive(frame(request("still", "ask"))), Call)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "-NaN", "0x1", "1_0", "01", "+1", ".5", "5."])
def test_what_is_no_number_in_json_is_a_parse_error(number: str) -> None:
    subject = peer()
    subject.receive(b'{"jsonrpc":"2.0","id":1,"method":"ask","params":{"x":%s}}' % number.encode())
    assert codes(subject) == [(1, -32700)]


@pytest.mark.parametrize("digits", [20, 400, 1000, 5000, 100_000])
def test_a_huge_number_is_refused_or_ignored_and_quickly(digits: int) -> None:
    for member in ("x", "_meta"):
        subject, started = peer(), time.process_time()
        line = b'{"jsonrpc":"2.0","id":1,"method":"ask","params":{"%s":%s}}' % (member.encode(), b"9" * digits)
        assert isinstance(subject.receive(line), Noise | Call)
        assert time.process_time() - started < 0.5


@BOTH
@pytest.mark.parametrize(
    "blank", [b"", b" ", b"\r", b"\t \r", b" " * 1000, b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 3000]
)
def test_a_blank_frame_is_nothing(blank: bytes, quiet: bool) -> None:
    subject = peer(quiet=quiet)
    assert subject.receive(blank) is None
    assert answers(subject) == []


TALK = b'{"jsonrpc":"2.0","id":5,"method":"pass","params":{"k":"v"}}'
INSERTED = {
    "bom": b"\xef\xbb\xbf",
    "two boms": b"\xef\xbb\xbf\xef\xbb\xbf",
    "carriage return": b"\r",
    "space": b" ",
    "tab": b"\t",
    "nul": b"\0",
    "unit separator": b"\x1f",
    "delete": b"\x7f",
    "lone continuation": b"\x80",
    "never utf-8": b"\xff",
    "overlong": b"\xc0\xaf",
    "encoded surrogate": b"\xed\xa0\x80",
    "beyond unicode": b"\xf4\x90\x80\x80",
    "cut off": b"\xe2\x82",
    "line separator": b"\xe2\x80\xa8",
    "emoji": b"\xf0\x9f\x98\x80",
    "next line": b"\xc2\x85",
    "no-break space": b"\xc2\xa0",
    "escape": b"\x1b[31m",
    "backspace": b"\b",
}
PLACES = {"start": 0, "end": len(TALK), "string": TALK.index(b"v"), "key": TALK.index(b"k"), "between": 1}


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inserted", INSERTED)
def test_each_byte_in_each_place_is_json_or_a_parse_error(inserted: str, place: str, twice: bool) -> None:
    """T04, against a parser that knows nothing of ours; only byte order marks in front are forgiven."""
    at, extra = PLACES[place], INSERTED[inserted] * (2 if twice else 1)
    line = TALK[:at] + extra + TALK[at:]
    subject = peer()
    event = subject.receive(line)
    is_object = line.strip(b" \t\r").startswith(b"{")
    try:
        read = json.loads(line.decode().lstrip("\ufeff"))
    except ValueError:
        assert isinstance(event, Noise)
        assert codes(subject) == [(5 if is_object else None, -32700)]
    else:
        assert isinstance(event, Call)
        assert msgspec.json.decode(event.params) == read["params"]


@pytest.mark.parametrize(
    ("batch", "speaks", "refused", "failed"),
    [
        ([], False, [], []),
        ([1, 2, 3], False, [], []),
        (["x"], False, [], []),
        ([{}], False, [], []),
        ([[]], False, [], []),
        ([{"level": "info", "id": 1}], False, [], []),
        ([request(1, "ask")], True, [1], []),
        ([request(1, "ask"), request("2", "ask")], True, [1, "2"], []),
        ([note("tell")], True, [], []),
        ([note("tell"), 5, request(1, "ask")], True, [1], []),
        ([result(1, {})], True, [], [1]),
        ([result(1, {}), result(2, {}), result(3, {}), request(4, "ask")], True, [4], [1, 2]),
        ([request(1, "nobody/knows"), {"jsonrpc": "1.0"}], True, [1], []),
    ],
)
@BOTH
def test_each_message_of_a_batch_is_refused(
    batch: list[Any], speaks: bool, refused: list[Any], failed: list[int], quiet: bool
) -> None:
    """T14: batches are not part of version 1; what carries an id has its outcome, else one error has none."""
    subject = peer(quiet=quiet, pending=2)
    event = subject.receive(frame(batch))
    events = event.events if isinstance(event, Batch) else [event]
    assert [reply.id for reply in events if isinstance(reply, Reply)] == failed
    assert all(isinstance(reply.error, RemoteProtocolError) for reply in events if isinstance(reply, Reply))
    is_idle = (quiet and not speaks) or failed
    assert codes(subject) == ([(id, -32600) for id in refused] or ([] if is_idle else [(None, -32600)]))
    assert isinstance(subject.receive(frame(result(1, {}))), Noise if 1 in failed else Reply)


@pytest.mark.parametrize("value", [None, True, False, 0, 1, -1.5, "hi", ""])
@BOTH
def test_a_value_that_is_no_object_is_refused_or_noise(value: Any, quiet: bool) -> None:
    subject = peer(quiet=quiet)
    assert isinstance(subject.receive(frame(value)), Noise)
    assert codes(subject) == ([] if quiet else [(None, -32600)])


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "level": "info"},
        {"id": 1, "level": "info", "result": {}},
        {"id": 1, "method": "ask", "time": 5},
        {"id": 1},
        {"method": "ask"},
        {"error": "x"},
        {"x": 1},
    ],
)
def test_a_log_line_is_never_answered_nor_taken_for_a_response(message: dict[str, Any]) -> None:
    subject = peer(quiet=True, pending=1)
    assert isinstance(subject.receive(frame(message)), Noise)
    assert answers(subject) == []
    assert isinstance(subject.receive(frame(result(1, {}))), Reply)


# Depth (T02)


def test_nesting_in_every_field_of_every_message_is_refused() -> None:
    figures = nest([1000, 20_001])
    print(figures)
    assert figures["slowest"] < 0.5


@pytest.mark.parametrize("form", ["arrays", "objects", "mixed"])
@pytest.mark.parametrize("where", [b'{"jsonrpc":"2.0","id":', b'{"jsonrpc":"2.0","id":1,"method":', b"", b'{"a":'])
def test_ten_million_levels_are_refused_as_quickly(form: str, where: bytes) -> None:
    line = where + nested(form, 2_500_000 if form == "objects" else 10_000_000, closed=False)
    started = time.process_time()
    event, refusals = meaning(line)
    assert time.process_time() - started < 0.5
    assert isinstance(event, Noise)
    assert [refusal["error"]["code"] for refusal in refusals] == [-32700]


def test_depth_is_refused_on_a_short_stack_too() -> None:
    command = [sys.executable, "-m", "torture.nesting", "20001"]
    ended = subprocess.run(command, cwd=Path(__file__).parent, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert SHORT_STACK == 256 * 1024


@pytest.mark.skipif(os.name != "posix", reason="there is no ulimit")
def test_depth_is_refused_in_a_process_with_a_short_stack() -> None:
    import resource

    def shorten() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (SHORT_STACK, SHORT_STACK))

    command = [sys.executable, "-m", "torture.nesting", "1001"]
    ended = subprocess.run(command, cwd=Path(__file__).parent, timeout=PATIENCE, check=False, preexec_fn=shorten)
    assert ended.returncode == 0


HOSTILE = {
    "items": b'{"jsonrpc":"2.0","id":1,"method":"pass","params":[' + b"1," * 500_000 + b"1]}",
    "escapes": b'{"jsonrpc":"2.0","id":1,"method":"pass","params":{"a":"' + b'\\"' * 500_000,
    "members": b'{"jsonrpc":"2.0","id":1,"method":"ask"' + b"".join(b',"%d":1' % i for i in range(110_000)) + b"}",
    "messages": b"[" + b'{"id":1},' * 110_000 + b"{}]",
    "tokens": b'{"jsonrpc":"2.0","id":1,"method":"ask","params":[' + b"1," * 500_000 + b"}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_frame_takes_neither_much_time_nor_much_memory(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte each, against limits for sixteen: what is made of a frame stays below a few times its size."""
    monkeypatch.setattr(framing, "_MAX_ITEMS", 60_000)
    monkeypatch.setattr(codec, "MAX_LISTED", 6_000)
    subject, started = peer(), time.thread_time()
    tracemalloc.start()
    try:
        subject.receive(HOSTILE[kind])
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert time.thread_time() - started < 5


# Oversize frames (T03)


@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"ask","params":{"x":"', 5),
        (b'{"jsonrpc":"2.0","id":"five","method":"ask","params":{"x":"', "five"),
        (b'{ "params" : {"id":1,"x":[1,{"id":2}]} , "id" : 5 , "method" : "', 5),
        (b'{"jsonrpc":"2.0","method":"ask","params":{"id":5,"x":"', None),
        (b'{"jsonrpc":"2.0","id":1234', None),
        (b'{"jsonrpc":"2.0","id":', None),
        (b'{"jsonrpc":"2.0","id":"abc', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","id":[5],"method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","id":nope,"method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","id":"\\x","method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","\\x":1,"method":"ask","params":"', None),
        (b'{"jsonrpc":"2.0","\xff":1,"method":"ask","params":"', None),
        (b"\xff\xfe\0\0", None),
        (b"[" * HEAD, None),
        (b'"' * HEAD, None),
        (b"\\" * HEAD, None),
        (b"", None),
    ],
    ids=lambda head: repr(head[:60]) if isinstance(head, bytes) else "",
)
def test_an_oversize_request_is_refused_with_its_id_if_that_was_seen(head: bytes, id: Any) -> None:
    subject = peer()
    event = subject.receive(Oversize((head + b"x" * HEAD)[:HEAD], 20_000_000))
    assert isinstance(event, Noise)
    assert codes(subject) == [(id, -32600)]
    quiet = peer(quiet=True)
    assert isinstance(quiet.receive(Oversize((head + b"x" * HEAD)[:HEAD], 20_000_000)), Noise)
    assert codes(quiet) == ([] if id is None else [(id, -32600)])


@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"content":"',
        b'{"result":{"a":[1,2,{"id":2}]},"id":1,"x":"',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"',
    ],
)
@BOTH
def test_an_oversize_response_fails_its_call(head: bytes, quiet: bool) -> None:
    subject = peer(quiet=quiet, pending=1)
    event = subject.receive(Oversize((head + b"x" * HEAD)[:HEAD], 20_000_000))
    assert isinstance(event, Reply)
    assert event.id == 1
    assert isinstance(event.error, RemoteProtocolError)
    assert answers(subject) == []


# Sending


@pytest.mark.parametrize("value", [object(), {1j: 1}, float, {"a": {object()}}, 2**70, ...])
def test_a_result_that_cannot_be_sent_is_answered_as_our_error(value: Any) -> None:
    subject = peer()
    event = subject.receive(frame(request(5, "ask")))
    assert isinstance(event, Call)
    if value == 2**70:
        subject.reply(event.key, value)
        assert answers(subject) == [result(5, 2**70)]
        return
    with pytest.raises(LocalProtocolError, match="ask"):
        subject.reply(event.key, value)
    subject.fail(event.key, InternalError())
    assert codes(subject) == [(5, -32603)]


@pytest.mark.parametrize("message", [ValueError("boom"), object(), None, 5, b"x", ["a"], "", "a\ud800"])
@pytest.mark.parametrize("data", [None, object(), {"a": float("nan")}, {1: 2}, "\udfff"])
def test_an_error_is_always_sent_with_words_in_it(message: Any, data: Any) -> None:
    subject = peer()
    event = subject.receive(frame(request(5, "ask")))
    assert isinstance(event, Call)
    subject.fail(event.key, InvalidParams(message, data))
    (answer,) = answers(subject)
    assert answer["id"] == 5
    assert answer["error"]["code"] == -32602
    assert isinstance(answer["error"]["message"], str)


def test_too_many_requests_are_refused_until_some_are_answered() -> None:
    subject = peer(max_owed=2)
    calls = [subject.receive(frame(request(id, "ask"))) for id in (1, 2, 3)]
    assert codes(subject) == [(3, -32001)]
    assert isinstance(calls[0], Call)
    subject.reply(calls[0].key, {})
    assert isinstance(subject.receive(frame(request(4, "ask"))), Call)


def test_a_response_is_read_however_many_requests_are_in_the_works() -> None:
    subject = peer(max_owed=1, pending=1)
    subject.receive(frame(request(1, "ask")))
    assert isinstance(subject.receive(frame(result(1, {}))), Reply)


# Against models (T10, T18)


def test_nothing_is_lost_or_mixed_up_on_a_channel_that_loses_and_reorders() -> None:
    run_state_machine_as_test(seed(10)(Channel), settings=run_settings(60, 6))


def test_a_peer_is_opened_once_and_before_all_else() -> None:
    run_state_machine_as_test(seed(18)(Lifecycle), settings=run_settings(60, 40))


def test_a_call_that_cannot_be_sent_is_owed_no_answer() -> None:
    side = peer()
    with pytest.raises(Exception, match="cannot be written"):
        side.call(ASK, {"x": object()})
    assert side.lose(RuntimeError()) == []
    assert side.call(ASK, {}) == 1


def test_what_was_taken_is_queued_no_more() -> None:
    side = peer()
    side.note(TELL, {})
    assert side.queued == sum(map(len, side.take())) > 0
    assert side.queued == 0


def test_a_method_that_is_answered_no_more_is_not_heard_though_its_frames_were_learned() -> None:
    side = peer()
    line = frame(note("tell", {"x": 1}))
    assert [type(side.receive(line)) for _ in range(100)] == [Note] * 100
    side.answer({}, {})
    assert side.receive(line) is None
