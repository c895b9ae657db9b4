"""An MCP server for tests that wants more than its share: of the client's messages, of the user, of time."""

import json
import sys
from typing import Any

LARGE = 17_000_000  # characters: more than a message of the protocol may have
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}}
NAMES = ("greet", "many", "large", "pester", "finished", "sample")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(*words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": each} for each in words]}


def pestered() -> str:
    """Ask the user 100 things at once; gives how many were answered."""
    for number in range(100):
        params = {"message": f"Question {number}", "requestedSchema": FORM}
        send({"id": f"q{number}", "method": "elicitation/create", "params": params})
    actions = [json.loads(sys.stdin.readline())["result"]["action"] for _ in range(100)]
    return f"{actions.count('accept')} of {len(actions)}"


def sampled() -> str:
    """Ask the agent's model 30 times, one after the other; gives how many answers came."""
    content = {"type": "text", "text": "Why?"}
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 10}
    answers = []
    for number in range(30):
        send({"id": f"s{number}", "method": "sampling/createMessage", "params": params})
        answers.append(json.loads(sys.stdin.readline()))
    return f"{len([answer for answer in answers if 'result' in answer])} of {len(answers)}"


def called(name: str) -> dict[str, Any]:
    match name:
        case "many":
            return text(*["m" * 1000] * 2000)
        case "large":
            return text("first", "l" * LARGE, "last")
        case "pester":
            return text(pestered())
        case "sample":
            return text(sampled())
        case "finished":
            for number in range(100):
                send({"method": "notifications/elicitation/complete", "params": {"elicitationId": str(number)}})
    return text("hello")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            offers: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
            info = {"name": "greedy", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
        case "prompts/list":
            return {"prompts": [{"name": "n" * 10_000, "description": "d" * LARGE}]}
        case "tools/call":
            return called(params["name"])
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message and message["method"] != "resources/read":
        result = answer(message["method"], message.get("params", {}))
        told = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
        send({"id": message["id"], **told})
