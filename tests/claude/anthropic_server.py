"""A small server that speaks Anthropic's Messages API on loopback, from a script.

Each conversation has a path of its own, which is the base URL of its program: one server serves many programs.
What a program asks beside the conversation (titles, summaries) is answered with a fixed text and kept apart.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = dict[str, Any]
Step = Callable[["Writer"], None]

SUGGESTING = "[SUGGESTION MODE:"  # how the program asks what the user might say next

USAGE = {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1}


class Cut(Exception):
    """Close the connection now."""


class Writer:
    """Writes one streamed answer; steps of a script call it."""

    def __init__(self, handler: "Handler", model: str, number: int) -> None:
        self.handler, self.model, self.index = handler, model, 0
        self.id = f"msg_{number:06d}"
        self.stop_reason = "end_turn"
        self.started = False

    def start(self) -> None:
        if self.started:
            return
        self.started = True
        self.handler.begin_stream()
        message = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        }
        self.event("message_start", {"message": message})

    def event(self, kind: str, members: Event) -> None:
        data = json.dumps({"type": kind, **members})
        self.handler.chunk(f"event: {kind}\ndata: {data}\n\n".encode())

    def block(self, block: Event, deltas: list[Event]) -> None:
        self.start()
        index, self.index = self.index, self.index + 1
        self.event("content_block_start", {"index": index, "content_block": block})
        for delta in deltas:
            self.event("content_block_delta", {"index": index, "delta": delta})
        self.event("content_block_stop", {"index": index})

    def finish(self) -> None:
        self.start()
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        self.event("message_delta", {"delta": delta, "usage": {**USAGE, "output_tokens": 25}})
        self.event("message_stop", {})
        self.handler.chunk(b"")


def text(*pieces: str) -> Step:
    """Say a text in pieces."""
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return lambda writer: writer.block({"type": "text", "text": ""}, deltas)


def thinking(*pieces: str) -> Step:
    """Think in pieces."""
    deltas: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
    return lambda writer: writer.block({"type": "thinking", "thinking": "", "signature": ""}, deltas)


def tool(name: str, id: str = "", **arguments: Any) -> Step:
    """Call a tool; several in one answer are called in parallel."""

    def step(writer: Writer) -> None:
        writer.stop_reason = "tool_use"
        words = json.dumps(arguments)
        middle = len(words) // 2
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (words[:middle], words[middle:])]
        called = id or f"toolu_{writer.id[4:]}_{writer.index}"
        writer.block({"type": "tool_use", "id": called, "name": name, "input": {}}, deltas)

    return step


def stopping(reason: str) -> Step:
    """End the answer for this reason."""

    def step(writer: Writer) -> None:
        writer.stop_reason = reason

    return step


def status(code: int, kind: str, message: str, **headers: str) -> Step:
    """Answer with an error."""

    def step(writer: Writer) -> None:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        writer.handler.answer(code, body, headers)
        raise Cut

    return step


def cut(writer: Writer) -> None:
    """Close the connection in the middle of the stream."""
    raise Cut


class Hold:
    """Stops the stream until it is let go; `reached` says that the program is waiting."""

    def __init__(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def __call__(self, writer: Writer) -> None:
        writer.start()
        self.reached.set()
        self.released.wait(60)


class Conversation:
    """What a program hears at one base URL, in order, and what it has asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.script: deque[list[Step]] = deque()
        self.requests: list[Event] = []  # of the conversation itself
        self.aside: list[Event] = []
        self.beside = "ok"  # what is answered to those
        self.before_beside: list[Step] = []  # what happens before
        self.headers: list[dict[str, str]] = []  # of all requests
        self.holds: list[Hold] = []

    def say(self, *steps: Step) -> None:
        """Add one answer of the model."""
        self.holds += [step for step in steps if isinstance(step, Hold)]
        self.script.append(list(steps))

    def next_steps(self, is_main: bool) -> list[Step]:
        """What a request is answered with: by the script, or beside it."""
        if not is_main:
            return [*self.before_beside, text(self.beside)]
        return self.script.popleft() if self.script else [text("ok")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "AnthropicServer"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        name, _, rest = path.strip("/").partition("/")
        conversation = self.server.conversations.get(name)
        if conversation is None or rest not in ("v1/messages", "v1/messages/count_tokens"):
            self.server.strays.append(self.path)
            self.answer(404, b'{"type":"error","error":{"type":"not_found_error","message":"no such path"}}', {})
            return
        request = json.loads(body)
        if rest.endswith("count_tokens"):
            self.answer(200, b'{"input_tokens": 100}', {})
            return
        self.play(conversation, request)

    def do_GET(self) -> None:
        self.server.strays.append(self.path)
        self.answer(404, b"{}", {})

    def do_HEAD(self) -> None:
        self.answer(200, b"", {})

    def play(self, conversation: Conversation, request: Event) -> None:
        with self.server.lock:
            is_main = is_conversation(request)
            conversation.headers.append(dict(self.headers))
            (conversation.requests if is_main else conversation.aside).append(request)
            steps = conversation.next_steps(is_main)
            self.server.count += 1
            writer = Writer(self, request["model"], self.server.count)
        try:
            for step in steps:
                step(writer)
            if request.get("stream"):
                writer.finish()
        except Cut:
            self.close_connection = True
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def is_conversation(request: Event) -> bool:
    """Whether a request is the conversation's own: it has tools, and is no side question."""
    said = request["messages"][-1]["content"]
    return bool(request.get("tools")) and not (isinstance(said, str) and said.startswith(SUGGESTING))


class AnthropicServer(ThreadingHTTPServer):
    """Serves conversations on a port of loopback, in a thread."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.conversations: dict[str, Conversation] = {}
        self.strays: list[str] = []
        self.count = 0
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def conversation(self, name: str) -> Conversation:
        """Begin a conversation under a path of this name."""
        self.conversations[name] = Conversation(f"http://127.0.0.1:{self.server_address[1]}/{name}")
        return self.conversations[name]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a program that hangs up."""

    def close(self) -> None:
        """Let go of every stream, and stop."""
        for conversation in self.conversations.values():
            for hold in conversation.holds:
                hold.released.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


def running() -> Iterator[AnthropicServer]:
    """The server, for a fixture."""
    server = AnthropicServer()
    yield server
    server.close()


if __name__ == "__main__":  # for benchmarks: one conversation, in which the model always says "ok"
    serving = AnthropicServer()
    print(serving.conversation("bench").url, flush=True)
    serving._thread.join()
