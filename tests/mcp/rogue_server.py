"""An MCP server for tests that misbehaves: each tool does one thing that no server should, or few do."""

import base64
import json
import os
import sys
from typing import Any

LONG = 2_000_000
NAMES = [
    *("surrogate", "shapeless", "no_text", "structured", "long_error", "long_refusal"),
    *(
        "picture",
        "broken_picture",
        "die",
        "learn",
        "chatter",
        "greet",
        "long_line",
        "endless",
        "shouting",
        "marked",
        "flood",
        "lie",
    ),
]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def written(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def picture(data: str) -> dict[str, Any]:
    return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}


def call(id: int, name: str) -> None:
    match name:
        case "surrogate":
            written(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"text": "\\ud83d"}]}}' % id)
        case "shapeless":
            send({"id": id, "result": "all is well"})
        case "no_text":
            written(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "\xff"}]}}' % id)
        case "structured":
            send({"id": id, "result": {"content": [], "structuredContent": {"answer": 42}}})
        case "long_error":
            send({"id": id, "result": {**text("e" * LONG), "isError": True}})
        case "long_refusal":
            send({"id": id, "error": {"code": -32603, "message": "e" * LONG}})
        case "picture":
            send({"id": id, "result": picture(base64.b64encode(bytes(12_000_000)).decode())})
        case "broken_picture":
            send({"id": id, "result": picture("no base64!")})
        case "long_line":
            send({"id": id, "result": text("e" * LONG)})
        case "endless":
            while True:
                sys.stdout.buffer.write(b"e" * LONG)
        case "marked":
            written(
                b"\xef\xbb\xbf" + json.dumps({"jsonrpc": "2.0", "id": id, "result": text("done")}).encode() + b"\r"
            )
        case "shouting":
            for _ in range(50):
                sys.stderr.write("e" * LONG)
            send({"id": id, "result": text("done")})
        case "flood":
            for number in range(20_000):
                note = {"progressToken": id, "progress": number, "message": "f" * 1000}
                send({"method": "notifications/progress", "params": note})
                send({"method": "notifications/prompts/list_changed"})
            send({"id": id, "result": text("done")})
        case "lie":
            send({"id": id, "result": {**text("{}"), "structuredContent": {"count": "many"}}})
        case "die":
            if sys.argv[1:]:
                with open(sys.argv[1], "a") as file:
                    file.write("called\n")
            os._exit(3)
        case "learn":
            NAMES.append("learned")
            send({"method": "notifications/tools/list_changed"})
            send({"id": id, "result": text("done")})
        case "chatter":
            written(b"starting up...\n" + b'{"level": "info", "id": "x"}\n[]\nnull\n{"jsonrpc": "2.0", "id": 1')
            send({"id": id, "result": text("done")})
        case _:
            send({"id": id, "result": text(f"Hello from {os.getpid()}.")})


def tool(name: str) -> dict[str, Any]:
    """A tool as it is listed; one tells what its results are like, which they are not."""
    count = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    return {"name": name, "inputSchema": {"type": "object"}} | ({"outputSchema": count} if name == "lie" else {})


def answer(id: int, method: str, params: dict[str, Any]) -> None:
    if method == "initialize":
        offers = {"tools": {"listChanged": True}}
        info = {"name": "rogue", "version": "1"}
        version = params["protocolVersion"]
        send({"id": id, "result": {"protocolVersion": version, "capabilities": offers, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [tool(name) for name in NAMES]}})
    elif method == "tools/call":
        call(id, params["name"])
    else:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer(message["id"], message["method"], message.get("params", {}))
