"""Servers somebody else wrote: a few lines of plain sockets each, for what ours would never do."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager
from typing import NamedTuple

from dragoman.foundation.listening import stop_listening

GREETING = {"protocolVersion": 1, "agentCapabilities": {}}
SESSION = "s1"


class Request(NamedTuple):
    method: str
    target: str
    headers: dict
    body: bytes

    @property
    def message(self):
        return json.loads(self.body)


async def read_request(reader):
    """The next request of HTTP/1.1 on a socket; None at its end, and for a client that begins with HTTP/2."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    method, target, version = first.split(" ", 2)
    if version != "HTTP/1.1":
        return None
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


def response(body=b"", status="200 OK", **headers):
    """An answer as bytes; `headers` with underscores for dashes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"content_type": "application/json", **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items() if value is not None]
    length = "" if "transfer_encoding" in headers else f"content-length: {len(data)}\r\n"
    return f"HTTP/1.1 {status}\r\n{''.join(lines)}{length}\r\n".encode() + data


def answer(request, result):
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


def told(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}


def result_of(method):
    """What a plain agent answers."""
    return {
        "initialize": GREETING,
        "session/new": {"sessionId": SESSION},
        "session/prompt": {"stopReason": "end_turn"},
    }.get(method, {})


@asynccontextmanager
async def listening(serve, scheme="http"):
    """`serve(reader, writer)` for every socket; yields the URL."""
    tasks, is_over = set(), False

    async def run(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    def accept(reader, writer):
        if is_over:  # it was taken before the server was closed
            writer.transport.abort()
            return

        def end(task):
            tasks.discard(task)
            writer.transport.abort()  # also of a task that was cancelled before it began

        task = asyncio.create_task(run(reader, writer))
        tasks.add(task)
        task.add_done_callback(end)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
    finally:
        await stop_listening(server)
        is_over = True
        while tasks:
            for task in list(tasks):
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0)


def answering(handle):
    """A server that has `handle(request, writer)` answer one request after the other."""

    async def serve(reader, writer):
        while request := await read_request(reader):
            await handle(request, writer)

    return serve
