"""The agent without a fault, on which all others are based."""

import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

Message = dict[str, Any]

SESSION = "rogue-1"


class Rogue:
    """Behaves."""

    def __init__(self, number: int) -> None:
        self.number = number

    # Lines

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: Message, result: Any) -> None:
        self.send(id=request["id"], result=result)

    def update(self, **update: Any) -> None:
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
