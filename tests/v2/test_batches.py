"""Several messages in one frame, which version 2 has: each goes its way, and the answers come back in one frame."""

import json
from typing import Any

from test_negotiation import INFO, spoken_to

from dragoman.testing import RawWire

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
        answers = {answer["id"]: answer for answer in await answered(wire)}
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
