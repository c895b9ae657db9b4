"""Faults of messages: their order, their envelopes, the protocol's version."""

import json
from typing import Any

from .agent import SESSION, Message, Rogue

# Order


class SendsEarlyUpdates(Rogue):
    """Sends updates of a session before it answers session/new."""

    def new_session(self, request: Message) -> None:
        self.update(sessionUpdate="current_mode_update", currentModeId="early")
        self.say("early")
        super().new_session(request)


class LateUpdates(Rogue):
    """Sends more updates of a turn after it answered the prompt."""

    def end(self, request: Message) -> None:
        super().end(request)
        self.say("late")


class OrphanUpdate(Rogue):
    """Updates a tool call it never announced."""

    def prompt(self, request: Message) -> None:
        self.update(sessionUpdate="tool_call_update", toolCallId="ghost", status="completed", title="Ghost")
        super().prompt(request)


class DuplicateResponses(Rogue):
    """Answers everything twice."""

    def answer(self, request: Message, result: Any) -> None:
        super().answer(request, result)
        super().answer(request, result)


class StrayResponses(Rogue):
    """Answers requests that were not made."""

    def prompt(self, request: Message) -> None:
        for id in (request["id"] + 1000, "x", None, [1], 1.5, True):
            self.send(id=id, result={"stopReason": "refusal"})
        super().prompt(request)


# Envelopes


class StringIds(Rogue):
    """Uses strings as the ids of its requests, one of which looks like a number."""

    def prompt(self, request: Message) -> None:
        self._waiting, self._turn = {"7f3d-perm", str(request["id"])}, request
        for id in self._waiting:
            self.send(id=id, method="session/request_permission", params=PERMISSION)

    def answered(self, response: Message) -> None:
        self._waiting.remove(response["id"])
        self.say(response["result"]["outcome"]["outcome"] + " ")
        if not self._waiting:
            self.end(self._turn)


PERMISSION = {
    "sessionId": SESSION,
    "toolCall": {"toolCallId": "call-1", "title": "Delete everything"},
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}


class NullResults(Rogue):
    """Answers null where an object is required."""

    def list_sessions(self, request: Message) -> None:
        self.answer(request, None)

    def set_mode(self, request: Message) -> None:
        self.answer(request, None)


class UnknownMethods(Rogue):
    """Sends unknown requests and notifications, and expects an error for the requests."""

    def prompt(self, request: Message) -> None:
        self._turn = request
        self.send(method="_auth/status_update", params={"state": "fine"})
        self.send(method="$/progress", params=[1, 2])
        self.send(id=1, method="craft/drainMidTurnQueue", params={"sessionId": SESSION})

    def answered(self, response: Message) -> None:
        self.say(str(response["error"]["code"]))
        self.end(self._turn)


class SendsBatches(Rogue):
    """Sends a batch, which the protocol does not allow, and an empty one."""

    def prompt(self, request: Message) -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "batched"}}
        note = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}
        self.write(json.dumps([note, note]).encode() + b"\n[]\n")
        super().prompt(request)


class UnknownStopReason(Rogue):
    """Ends its turns with an unknown stop reason."""

    def end(self, request: Message) -> None:
        self.answer(request, {"stopReason": "_bored"})


class WrongResult(Rogue):
    """Answers prompts with a result of the wrong shape."""

    def end(self, request: Message) -> None:
        self.answer(request, {"stopReason": 7})


class MangledAnswers(Rogue):
    """Answers prompts with an unreadable message, in the NUMBERth of many ways."""

    WAYS = (
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"\xff"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn","cost":NaN}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"\x01"}}',
        b'{"jsonrpc":"2.0","id":"%d","result":{"stopReason":"end_turn"}}',
        b'{"jsonrpc":"2.0","id":%d.0,"result":{"stopReason":"end_turn"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{},"result":{"stopReason":"end_turn"}}',
        b'{"id":%d,"result":{"stopReason":"end_turn"}}',
        b'[{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}]',
        b'{"jsonrpc":"2.0","id":%d,"result":' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b'{"result":"' + b"x" * 17 * 1024 * 1024 + b'","id":%d,"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32603}}',
        b'{"jsonrpc":"2.0","id":%d,"error":"boom"}',
        b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32603.5,"message":"half"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"refusal"},"error":{"code":1,"message":"both"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}} trailing',
        b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_tu',
        b'{"result":{"text":"a " quote"},"id":%d,"jsonrpc":"2.0"}',
    )

    def end(self, request: Message) -> None:
        self.write(self.WAYS[self.number] % request["id"] + b"\n")


# Versions


class EchoVersion(Rogue):
    """Repeats whatever protocol version the client requests."""

    def version(self, request: Message) -> int:
        return int(request["params"]["protocolVersion"])


class OtherVersion(Rogue):
    """Answers with protocol version NUMBER."""

    def version(self, request: Message) -> int:
        return self.number


class RefuseVersion(Rogue):
    """Refuses every protocol version."""

    def initialize(self, request: Message) -> None:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": [7]}}
        self.send(id=request["id"], error=error)
