"""What a client does for an agent that asks: files, a terminal that has always finished, permission, forms."""

from collections.abc import Callable
from typing import Any

from dragoman.testing import RawWire

Reply = Callable[[dict[str, Any]], dict[str, Any] | None]


class Services:
    """Answers requests of an agent; `replies` has other answers by method, and None for none at all."""

    def __init__(self, wire: RawWire) -> None:
        self._wire = wire
        self._terminals = 0
        self.replies: dict[str, Reply] = {}

    def answer(self, message: dict[str, Any]) -> None:
        reply = self.replies.get(message["method"], self._usual)(message)
        if reply is not None:
            self._wire.send({"id": message["id"], **reply})

    def _usual(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message["params"]
        match message["method"]:
            case "session/request_permission":
                return selected(params["options"][0]["optionId"])
            case "elicitation/create" if params["mode"] == "form":
                return {"result": {"action": "accept", "content": {"name": "Kit"}}}
            case "elicitation/create":
                return {"result": {"action": "accept"}}
            case "fs/read_text_file":
                return {"result": {"content": "some text\n"}}
            case "fs/write_text_file" | "terminal/kill" | "terminal/release":
                return {"result": {}}
            case "terminal/create":
                self._terminals += 1
                return {"result": {"terminalId": f"kit-terminal-{self._terminals}"}}
            case "terminal/output":
                return {"result": {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 0}}}
            case "terminal/wait_for_exit":
                return {"result": {"exitCode": 0}}
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}


def selected(option: str) -> dict[str, Any]:
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


def refused(message: dict[str, Any]) -> dict[str, Any]:
    """The answer of a client that cannot do what it is asked for."""
    return {"error": {"code": -32603, "message": "the disk is full"}}


def unanswered(message: dict[str, Any]) -> None:
    """No answer."""
