"""An MCP server for tests whose answers come in pieces, cut off, under another id, twice, or too late.

It speaks over stdio, or over HTTP on a port that it prints.  It loads nothing but the standard library.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = [
    "pieces",
    "cut",
    "other_id",
    "other_kind_of_id",
    "twice",
    "twice_and_different",
    "late",
    "released",
    "greet",
    "\uff44elete",  # in full-width letters
]
RELEASED = threading.Event()  # what waits for a cancel may go on
OBJECT = {"type": "object"}


def answered(id: Any, words: str) -> bytes:
    result = {"content": [{"type": "text", "text": words}]}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, ensure_ascii=False).encode()


def bodies(id: int, name: str) -> list[bytes]:
    """What answers a call, each one message."""
    match name:
        case "pieces":
            return [answered(id, "in pieces: é€😀")]
        case "other_id":
            return [answered(1_000_000, "for nobody")]
        case "other_kind_of_id":
            return [answered(str(id), "as a text")]
        case "twice":
            return [answered(id, "once")] * 2
        case "twice_and_different":
            return [answered(id, "first"), answered(id, "second")]
        case "late":
            RELEASED.wait()
            return [answered(id, "too late")]
        case "released":
            RELEASED.set()
            return [answered(id, "released")]
    return [answered(id, f"hello from {os.getpid()}")]


def answer(message: dict[str, Any]) -> list[bytes]:
    """What answers a request that is no call of a tool."""
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "partial", "version": "1"}
            result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": name, "inputSchema": OBJECT} for name in NAMES]}
        case _:
            error = {"code": -32601, "message": "Method not found"}
            return [json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()]
    return [json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()]


def in_pieces(data: bytes, write: Callable[[bytes], Any]) -> None:
    """Write byte by byte, in the middle of characters, too."""
    for at in range(len(data)):
        write(data[at : at + 1])


# Over stdio


def say(data: bytes) -> None:
    os.write(1, data)


def take(message: dict[str, Any]) -> None:
    name = message.get("params", {}).get("name", "") if message["method"] == "tools/call" else ""
    if name == "cut":
        say(answered(message["id"], "never whole")[:-20])
        os._exit(0)
    for data in bodies(message["id"], name) if name else answer(message):
        if name == "pieces":
            in_pieces(data + b"\n", say)
        else:
            say(data + b"\n")


def serve_stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=take, args=[message], daemon=True).start()


# Over HTTP: an answer is JSON, or events where the port is followed by `events`


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "json"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        name = message.get("params", {}).get("name", "") if message["method"] == "tools/call" else ""
        data = bodies(message["id"], name) if name else answer(message)
        if self.kind == "events":
            body = b"".join(b"event: message\ndata: %b\n\n" % each for each in data)
        else:
            body = b"[%b]" % b",".join(data) if len(data) > 1 else data[0]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if self.kind == "events" else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if name == "cut":
            self.wfile.write(body[:-20])
            self.close_connection = True
        elif name == "pieces":
            in_pieces(body, lambda piece: (self.wfile.write(piece), self.wfile.flush()))
        else:
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    if sys.argv[1:]:
        Handler.kind = sys.argv[1]
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
    else:
        serve_stdio()
