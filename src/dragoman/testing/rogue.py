"""`python -m dragoman.testing.rogue BEHAVIOUR [NUMBER]`: an agent that misbehaves on the wire in one chosen way.

It speaks raw lines and knows nothing of this library, so that a client can be tried against what real peers do.
But for its one vice it is a plain agent: sessions can be opened, and prompts are echoed.  `--list` shows the vices.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

Message = dict[str, Any]

LONG_LINE = 563_170  # bytes; the longest seen in real traffic
SESSION = "rogue-1"


class Rogue:
    """Behaves."""

    def __init__(self, number: int) -> None:
        self.number = number

    # The wire

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def send(self, **message: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: Message, result: object) -> None:
        self.send(id=request["id"], result=result)

    def update(self, **update: object) -> None:
        self.send(method="session/update", params={"sessionId": SESSION, "update": update})

    def say(self, text: str) -> None:
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    # The conversation

    def run(self) -> None:
        for line in sys.stdin.buffer:
            self.hear(json.loads(line))
        self.left()

    def hear(self, message: Message) -> None:
        step = self.STEPS.get(message.get("method", ""))
        if step:
            getattr(self, step)(message)
        elif "method" not in message:
            self.answered(message)
        elif "id" in message:
            self.send(id=message["id"], error={"code": -32601, "message": "Method not found"})

    STEPS: ClassVar[Mapping[str, str]] = {
        "initialize": "initialize",
        "session/new": "new_session",
        "session/prompt": "prompt",
        "session/list": "list_sessions",
        "session/set_mode": "set_mode",
    }

    def initialize(self, request: Message) -> None:
        offers: Message = {"sessionCapabilities": {"list": {}}}
        self.answer(request, {"protocolVersion": self.version(request), "agentCapabilities": offers})

    def version(self, request: Message) -> int:
        return 1

    def new_session(self, request: Message) -> None:
        self.answer(request, {"sessionId": SESSION})

    def prompt(self, request: Message) -> None:
        self.say("".join(block.get("text", "") for block in request["params"]["prompt"]))
        self.end(request)

    def end(self, request: Message) -> None:
        self.answer(request, {"stopReason": "end_turn"})

    def list_sessions(self, request: Message) -> None:
        self.answer(request, {"sessions": [{"sessionId": SESSION, "cwd": "/"}]})

    def set_mode(self, request: Message) -> None:
        self.answer(request, {})

    def answered(self, response: Message) -> None:
        """The client answered a request of ours."""

    def left(self) -> None:
        """The client hung up."""


# Order


class EarlyUpdates(Rogue):
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

    def answer(self, request: Message, result: object) -> None:
        super().answer(request, result)
        super().answer(request, result)


class StrayResponses(Rogue):
    """Answers requests nobody made."""

    def prompt(self, request: Message) -> None:
        for id in (request["id"] + 1000, "x", None, [1], 1.5, True):
            self.send(id=id, result={"stopReason": "refusal"})
        super().prompt(request)


# Envelopes


class StringIds(Rogue):
    """Uses strings as the ids of its own requests, and one that looks like a number."""

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
    """Answers null where an object is due."""

    def list_sessions(self, request: Message) -> None:
        self.answer(request, None)

    def set_mode(self, request: Message) -> None:
        self.answer(request, None)


class UnknownMethods(Rogue):
    """Sends requests and notifications no client knows, and expects to be told so."""

    def prompt(self, request: Message) -> None:
        self._turn = request
        self.send(method="_auth/status_update", params={"state": "fine"})
        self.send(method="$/progress", params=[1, 2])
        self.send(id=1, method="craft/drainMidTurnQueue", params={"sessionId": SESSION})

    def answered(self, response: Message) -> None:
        self.say(str(response["error"]["code"]))
        self.end(self._turn)


class SendsBatches(Rogue):
    """Sends a batch, which the protocol does not have, and an empty one."""

    def prompt(self, request: Message) -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "batched"}}
        note = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}
        self.write(json.dumps([note, note]).encode() + b"\n[]\n")
        super().prompt(request)


class UnknownStopReason(Rogue):
    """Ends its turns for a reason nobody has heard of."""

    def end(self, request: Message) -> None:
        self.answer(request, {"stopReason": "_bored"})


class WrongResult(Rogue):
    """Answers prompts with something that is no answer to a prompt."""

    def end(self, request: Message) -> None:
        self.answer(request, {"stopReason": 7})


class MangledAnswers(Rogue):
    """Answers prompts so that nobody can read the answer, in the NUMBERth of many ways."""

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


# Bytes


class LongLine(Rogue):
    """Says everything in one line of half a megabyte."""

    def say(self, text: str) -> None:
        super().say(text.ljust(LONG_LINE, "x"))


class SendsNoise(Rogue):
    """Writes lines that are no messages between those that are."""

    LINES = (
        b"Loading model...",
        b'{"id":1,"level":"info"}',
        b'{"id":2,"level":"info","result":{"stopReason":"refusal"}}',
        b'{"id":3,"result":{"stopReason":"refusal"},"time":5}',
        b"42",
        b'"text"',
        b"null",
        b"[]",
        b"\x1b[31mred\x1b[0m",
        b"",
        b"\r",
    )

    def write(self, data: bytes) -> None:
        noise = b"\n".join(self.LINES) + b"\n"
        super().write(noise + data + noise)


class BadJson(Rogue):
    """Writes broken JSON, bytes that are not UTF-8, and much too deep a nesting between its messages."""

    LINES = (
        b'{"jsonrpc":"2.0","id":1,"resu',
        b'{"jsonrpc":"2.0","id":1000000,"result":{"protocolVersion":1}} trailing',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":NaN}',
    )

    def write(self, data: bytes) -> None:
        super().write(b"\n".join(self.LINES) + b"\n" + data)


class Deaf(Rogue):
    """Says nothing when it is sent what is no JSON, and nothing to requests it does not know."""

    def run(self) -> None:
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("method") in self.STEPS:
                self.hear(message)


class CarriageReturns(Rogue):
    """Ends its lines as Windows does, and starts with a byte order mark."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        super().write(b"\xef\xbb\xbf")

    def write(self, data: bytes) -> None:
        super().write(data.replace(b"\n", b"\r\n"))


class Dribble(Rogue):
    """Sends every byte by itself."""

    def write(self, data: bytes) -> None:
        for index in range(len(data)):
            super().write(data[index : index + 1])


# Versions


class EchoVersion(Rogue):
    """Claims to speak whatever protocol version it is asked for."""

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


# Life and death


class Immortal(Rogue):
    """Lives on when the client hangs up, and when it is asked to end."""

    def run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()

    def left(self) -> None:
        while True:
            time.sleep(60)


class Forking(Immortal):
    """Leaves a child behind that lives on as well."""

    def run(self) -> None:
        if os.fork() == 0:
            self.left()
        super().run()


class Stillborn(Rogue):
    """Ends before it has answered anything, with its reason on stderr."""

    def run(self) -> None:
        sys.stderr.write("rogue: no API key\n")
        sys.exit(self.number or 3)


class Mute(Rogue):
    """Never answers initialize."""

    def initialize(self, request: Message) -> None:
        """Nothing to say."""


class NeverAnswers(Rogue):
    """Never answers prompts."""

    def prompt(self, request: Message) -> None:
        """Nothing to say."""


class LoudStderr(Rogue):
    """Writes two megabytes to stderr before it answers initialize, and again before every prompt's answer."""

    def complain(self) -> None:
        sys.stderr.write(("rogue: deprecated\n" * 1024) * 114)
        sys.stderr.flush()

    def initialize(self, request: Message) -> None:
        self.complain()
        super().initialize(request)

    def end(self, request: Message) -> None:
        self.complain()
        super().end(request)


class ClosedStdout(Rogue):
    """Closes its stdout in the middle of a turn, and lives on."""

    def prompt(self, request: Message) -> None:
        self.say("closing")
        os.close(1)
        self.left()

    def left(self) -> None:
        while True:
            time.sleep(60)


class CrashAtByte(Rogue):
    """Is killed after NUMBER bytes of its output, wherever in a line that is."""

    written = 0

    def write(self, data: bytes) -> None:
        left = self.number - self.written
        super().write(data[:left])
        self.written += len(data)
        if len(data) >= left:
            sys.stderr.write("rogue: out of bytes\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)


BEHAVIOURS: dict[str, type[Rogue]] = {
    "none": Rogue,
    "early-updates": EarlyUpdates,
    "late-updates": LateUpdates,
    "orphan-update": OrphanUpdate,
    "duplicate-responses": DuplicateResponses,
    "stray-responses": StrayResponses,
    "string-ids": StringIds,
    "null-results": NullResults,
    "unknown-methods": UnknownMethods,
    "batches": SendsBatches,
    "unknown-stop-reason": UnknownStopReason,
    "wrong-result": WrongResult,
    "mangled-answers": MangledAnswers,
    "long-line": LongLine,
    "noise": SendsNoise,
    "bad-json": BadJson,
    "deaf": Deaf,
    "carriage-returns": CarriageReturns,
    "dribble": Dribble,
    "echo-version": EchoVersion,
    "other-version": OtherVersion,
    "refuse-version": RefuseVersion,
    "immortal": Immortal,
    "forking": Forking,
    "stillborn": Stillborn,
    "mute": Mute,
    "silent": NeverAnswers,
    "loud-stderr": LoudStderr,
    "closed-stdout": ClosedStdout,
    "crash-at-byte": CrashAtByte,
}


def main(argv: list[str]) -> int:
    if argv == ["--list"]:
        width = max(map(len, BEHAVIOURS))
        sys.stdout.writelines(f"{name:{width}}  {rogue.__doc__}\n" for name, rogue in BEHAVIOURS.items())
        return 0
    if not argv or argv[0] not in BEHAVIOURS:
        sys.stderr.write("usage: python -m dragoman.testing.rogue BEHAVIOUR [NUMBER] | --list\n")
        return 64
    BEHAVIOURS[argv[0]](int(argv[1]) if argv[1:] else 0).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
