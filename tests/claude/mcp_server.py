"""An MCP server for tests, over stdio, over HTTP or over server-sent events; it loads only the standard library.

Its tool `greet` answers with a header or a variable that it was given; `ask` has a question first, `visit` a page.
"""

import json
import os
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = ("greet", "ask", "visit")
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


def answered(message: Any, secret: str) -> Any:
    """The answer to a request; None for a notification."""
    if "id" not in message or "method" not in message:
        return None
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "small", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            schema = {"type": "object"}
            result = {"tools": [{"name": n, "description": n, "inputSchema": schema} for n in TOOLS]}
        case _:
            result = {"content": [{"type": "text", "text": f"greeted with {secret}"}]}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "HttpServer"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path not in ("/mcp", "/messages"):
            self.send_error(405)
            return
        answer = answered(message, self.headers.get("x-secret", "nothing"))
        if self.path == "/messages":
            self.server.events.put(answer) if answer else None
            answer = None
        body = json.dumps(answer).encode() if answer else b""
        self.send_response(200 if answer else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path != "/sse":
            self.send_error(405)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while (answer := self.server.events.get()) is not None:
            self.wfile.write(b"event: message\ndata: %b\n\n" % json.dumps(answer).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


class HttpServer(ThreadingHTTPServer):
    """Serves `/mcp` (streamable HTTP) and `/sse` on loopback, in a thread."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.events: queue.Queue[Any] = queue.Queue()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self.events.put(None)
        self.shutdown()
        self.server_close()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        answer = answered(message, os.environ.get("SECRET", "nothing"))
        if message.get("method") == "tools/call" and message["params"]["name"] == "ask":
            question = {"message": "Which colour?", "requestedSchema": FORM}
            asked = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": question}
            print(json.dumps(asked), flush=True)
            given = json.loads(sys.stdin.readline())["result"]
            answer["result"]["content"][0]["text"] = json.dumps(given)
        if message.get("method") == "tools/call" and message["params"]["name"] == "visit":
            page = {"mode": "url", "message": "Log in", "url": "https://example.com/in", "elicitationId": "e1"}
            asked = {"jsonrpc": "2.0", "id": "q2", "method": "elicitation/create", "params": page}
            print(json.dumps(asked), flush=True)
            answer["result"]["content"][0]["text"] = json.dumps(json.loads(sys.stdin.readline())["result"])
            done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}}
            print(json.dumps({"jsonrpc": "2.0", **done}), flush=True)
        if answer:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
