"""What the core promises at its limits: how far a message is read leniently, what runs out, what a batch is."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from patience import PATIENCE

from dragoman import codec
from dragoman.connection.deadlines import Deadlines
from dragoman.connection.incoming import PassedOn
from dragoman.dialects.declared import wants_tools
from dragoman.envelope import Notification, sendable
from dragoman.errors import LocalProtocolError
from dragoman.events import Method
from dragoman.foundation.comparing import compared, hunks, lines_of
from dragoman.foundation.destinations import is_host, is_public, read_origin
from dragoman.framing import MAX_FRAME
from dragoman.schema.base import Lenient
from dragoman.transports.batches import INVALID, Batches


class Counted(Struct):
    number: int
    some: Annotated[Sequence[int], Meta(min_length=2)] = (1, 2)


class Listed(Struct):
    items: Lenient[Sequence[int]] = ()


class Named(Struct, tag_field="kind", tag="named"):
    name: str


def read(message: Any, tp: Any) -> Any:
    return codec.decode(json.dumps(message).encode(), tp)


def test_a_whole_number_may_be_written_as_a_fraction_and_no_other_may() -> None:
    assert read({"number": 1.0}, Counted).number == 1
    for written in (1.5, "1", True):
        with pytest.raises(codec.Invalid):
            read({"number": written}, Counted)


def test_a_tag_of_another_type_is_refused_on_the_lenient_way_too() -> None:
    with pytest.raises(codec.Invalid, match="kind"):
        read({"kind": "other", "name": "a", "_": {}}, Named)


def test_items_that_do_not_fit_are_left_out_up_to_a_number() -> None:
    assert list(read({"items": [1, "x", 2]}, Listed).items) == [1, 2]
    assert len(read({"items": [*["x"] * codec.MAX_DROPPED, 1]}, Listed).items) == 1
    assert list(read({"items": [*["x"] * (codec.MAX_DROPPED + 1), 1]}, Listed).items) == []


def test_a_frame_as_large_as_peers_accept_is_sent_and_a_larger_one_is_not() -> None:
    around = len(sendable(Notification("m", "")))
    assert len(sendable(Notification("m", "x" * (MAX_FRAME - around)))) == MAX_FRAME
    with pytest.raises(LocalProtocolError, match="too large"):
        sendable(Notification("m", "x" * (MAX_FRAME - around + 1)))


@pytest.mark.parametrize("form", ["[", '{"a":'])
def test_a_frame_deeper_than_peers_accept_is_not_sent(form: str) -> None:
    nested: Any = 0
    for _ in range(150):
        nested = [nested] if form == "[" else {"a": nested}
    with pytest.raises(LocalProtocolError, match="deeper than 128"):
        sendable(Notification("m", nested))


async def test_deadlines_come_in_their_order_whatever_order_they_were_set_in() -> None:
    over, gone = asyncio.Event(), list[int]()

    def expire(id: int, method: Method) -> None:
        gone.append(id)
        if len(gone) == 3:
            over.set()

    deadlines = Deadlines(asyncio.get_running_loop(), expire)
    for id, seconds in ((1, 0.2), (2, 0.05), (3, 0.4), (4, 0.01)):
        deadlines.add(id, Method("m", Any, Any, timeout=seconds))
    deadlines.discard(4)
    async with asyncio.timeout(PATIENCE):
        await over.wait()
    assert gone == [2, 1, 3]
    deadlines.close()


async def test_requests_that_are_passed_on_are_settled_once_and_cancelled_at_the_end() -> None:
    passing, cancelled = PassedOn(), list[int]()
    for key in (1, 2, 3):
        passing[key] = lambda key=key: cancelled.append(key)  # type: ignore[misc]
    assert [passing.settle(1), passing.settle(1)] == [True, False]
    await passing.end(0)
    assert cancelled == [2, 3]


def test_a_batch_is_answered_in_one_frame_once_all_its_answers_are_there() -> None:
    batches = Batches()
    asked = [{"jsonrpc": "2.0", "id": id, "method": "m"} for id in (1, 2)]
    messages, said = batches.messages(json.dumps([*asked, 5]).encode()) or ([], [])
    assert (len(messages), said) == (2, [])
    first, second = (json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode() for id in (1, 2))
    assert batches.gathered([first]) == []
    (together,) = batches.gathered([second])
    assert json.loads(together) == [json.loads(INVALID), json.loads(first), json.loads(second)]
    assert batches.gathered([first]) == [first]  # an answer to nothing in a batch goes as it is


@pytest.mark.parametrize("frame", [b"[]", b"{}", b"[", b'{"a":[]}'])
def test_what_is_no_batch_is_left_to_whoever_hears_it(frame: bytes) -> None:
    assert Batches().messages(frame) is None


@pytest.mark.parametrize(
    "address",
    ["::ffff:10.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "169.254.169.254", "fe80::1", "2002::1", "100.64.0.1"],
)
def test_an_address_of_a_private_network_is_not_public_however_it_is_written(address: str) -> None:
    assert not is_public(address)
    assert is_public("::ffff:8.8.8.8") and is_public("8.8.8.8")


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "010.0.0.1", "1.2.3.04", "::0001"])
def test_a_number_that_programs_read_in_different_ways_is_no_host(host: str) -> None:
    assert not is_host(host)


@pytest.mark.parametrize(
    "url", ["https://example.com/\\evil", "https://example.com\\@evil.com", "https://a b/", "https://é/"]
)
def test_a_url_that_programs_read_in_different_ways_has_no_origin(url: str) -> None:
    assert read_origin(url) is None


def test_no_two_hunks_touch_and_each_has_its_context() -> None:
    old = [f"{number}\n" for number in range(40)]
    for between in range(1, 12):
        new = [*old[:10], "a\n", *old[11 : 11 + between], "b\n", *old[12 + between :]]
        found = list(hunks(old, new, 3))
        assert len(found) == (1 if between <= 6 else 2), between
        ends = [hunk.old_start + hunk.old_count for hunk in found]
        assert all(end < after.old_start for end, after in zip(ends, found[1:], strict=False))


def test_the_way_from_one_text_to_another_leads_there_where_lines_are_there_twice() -> None:
    old, new = lines_of("a\nb\na\nc\n" * 300), lines_of("c\na\nb\nd\n" * 300)
    made = [line for step in compared(old, new) for line in new[step.new_start : step.new_end]]
    assert made == new
    assert all(
        old[s.old_start : s.old_end] == new[s.new_start : s.new_end]
        for s in compared(old, new)
        if s.kind == "equal"
    )


@pytest.mark.parametrize(
    ("meta", "wants"),
    [
        ({"dragoman": {"tools": True}}, True),
        ({"dragoman": {"tools": 1}}, False),
        ({"dragoman": {}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_tools_are_told_to_clients_that_ask_for_them_alone(meta: Any, wants: bool) -> None:
    assert wants_tools(meta) is wants
