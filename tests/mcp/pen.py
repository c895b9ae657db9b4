"""A small MCP server for tests, with tools of all sorts.  It loads nothing, so that many tests can start it."""

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
TOOLS = [
    {
        "name": "write",
        "description": "Write a file.",
        "inputSchema": {"type": "object", "properties": {"path": TEXT}},
    },
    {
        "name": "greet",
        "description": "Greet somebody.",
        "inputSchema": {"type": "object", "properties": {"name": TEXT}},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "draw", "inputSchema": {"type": "object"}},
    {"name": "ask", "inputSchema": {"type": "object"}},
    {"name": "visit", "inputSchema": {"type": "object"}},
]
FORM = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def asked(params: dict[str, Any]) -> dict[str, Any]:
    """What the user answers to a question."""
    send({"id": "question", "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "question":
            return dict(message.get("result") or {"action": "error"})
    raise SystemExit


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "write":
        Path(arguments["path"]).write_text("by mcp")
        return text("written")
    if name == "greet":
        return text(f"Hello, {arguments['name']}!")
    if name == "draw":
        return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    if name == "ask":
        return text(json.dumps(asked({"message": "Which colour?", "requestedSchema": FORM})))
    if name == "visit":
        page = {"mode": "url", "message": "Log in.", "url": "https://example.com/login", "elicitationId": "7"}
        answer = asked(page)
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "7"}})
        return text(json.dumps(answer))
    return {**text("it cannot be done"), "isError": True}


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "pen", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    return called(params["name"], params.get("arguments", {})) if method == "tools/call" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params", {}))
        told = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
        send({"id": message["id"], **told})
