"""Several messages in one frame, which version 2 has: each goes its way, and the answers come back in one frame."""

import json
from typing import Any

from test_negotiation import INFO, spoken_to

from dragoman.codec import MAX_LISTED
from dragoman.testing import RawWire
from dragoman.transports.batches import MAX_OPEN, Batches

HELLO = {"protocolVersion": 2, "info": INFO, "capabilities": {}}


def batch(*messages: Any) -> bytes:
    return json.dumps(messages).encode()


def call(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def answered(wire: RawWire) -> Any:
    """The next frame that is no update."""
    while isinstance(message := await wire.receive(), dict) and "method" in message:
        pass
    return message


async def test_requests_in_one_frame_are_answered_in_one_frame():
    async with spoken_to() as wire:
        await wire.request("initialize", HELLO)
        wire.send(batch(call(1, "session/new", cwd="/"), call("1", "session/list"), call(2, "nonsense")))
        batched = await answered(wire)
        assert isinstance(batched, list)
        answers = {answer["id"]: answer for answer in batched}
        assert set(answers) == {1, "1", 2}
        assert answers[1]["result"]["sessionId"]
        assert answers["1"]["result"]["sessions"] is not None
        assert answers[2]["error"]["code"] == -32601


async def test_what_is_no_message_in_a_batch_is_refused_beside_the_others():
    async with spoken_to() as wire:
        await wire.request("initialize", HELLO)
        wire.send(batch(1, {"foo": 2}, call(3, "session/list")))
        answers = await answered(wire)
        assert [(answer["id"], (answer.get("error") or {}).get("code")) for answer in answers] == [
            (None, -32600),
            (None, -32600),
            (3, None),
        ]


async def test_notifications_alone_are_not_answered_and_an_empty_batch_is_refused():
    async with spoken_to() as wire:
        await wire.request("initialize", HELLO)
        wire.send(batch({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}))
        wire.send(batch())
        refusal = await answered(wire)
        assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
        assert "result" in await wire.request("session/list", {})


async def test_version_1_has_no_batches():
    async with spoken_to() as wire:
        await wire.request("initialize", {"protocolVersion": 1})
        wire.send(batch(call(1, "session/list")))
        refusal = await answered(wire)
        assert (refusal["id"], refusal["error"]["code"]) == (1, -32600)


def answer(id: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode()


def ids(frames: list[bytes]) -> list[Any]:
    """The ids of frames; those of a batch are a list."""
    found = [json.loads(frame) for frame in frames]
    return [[one["id"] for one in each] if isinstance(each, list) else each["id"] for each in found]


def test_answers_wait_for_each_other_and_whatever_else_is_said_does_not():
    batches = Batches()
    batches.messages(batch(call(1, "a"), call("1", "b")))
    told = json.dumps({"jsonrpc": "2.0", "method": "c", "params": {}}).encode()
    assert batches.gathered([answer("1"), told, answer(7)]) == [told, answer(7)]
    assert ids(batches.gathered([answer(1)])) == [["1", 1]]
    assert batches.gathered([answer(1)]) == [answer(1)]  # it is over


def test_two_requests_with_one_id_have_two_answers():
    batches = Batches()
    batches.messages(batch(call(1, "a"), call(1, "b"), call(2, "c")))
    batches.messages(batch(call(2, "d"), call(3, "e")))
    assert ids(batches.gathered([answer(1), answer(1), answer(2), answer(2), answer(3)])) == [1, [1, 2], 2, [3]]


def test_batches_without_end_are_answered_message_by_message():
    batches = Batches()
    for at in range(MAX_OPEN // 100):
        batches.messages(batch(*(call(at * 100 + each, "a") for each in range(100))))
    batches.messages(batch(call("late", "a"), call("later", "b")))
    assert ids(batches.gathered([answer("late"), answer("later")])) == ["late", "later"]


def test_a_batch_of_more_messages_than_a_list_may_have_is_none():
    note = {"jsonrpc": "2.0", "method": "c"}
    assert Batches().messages(batch(*[note] * (MAX_LISTED + 1))) is None
    found, back = Batches().messages(batch(*[note] * MAX_LISTED))
    assert (len(found), back) == (MAX_LISTED, [])
