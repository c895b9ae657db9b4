"""A client that is nobody's library: it sends a few requests, and counts the updates of one turn in the bytes.

It does not read messages, so servers that are measured with it differ in nothing but themselves.
`neutral.py WIRE PORT COUNT` prints the updates a second.  WebSocket and HTTP/1.1 are written by hand; HTTP/2
has h2.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events

MARK = b'"agent_message_chunk"'
KEPT = 64 * 1024  # bytes of the end in which an answer is looked for
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
OPENING = {"cwd": "/", "mcpServers": []}
PATIENCE = 600.0
_ENDED = re.compile(rb'"stopReason"\s*:\s*"')
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]+)"')


class Seen:
    """Counts marks in bytes, however they are cut, and finds what an answer says."""

    def __init__(self) -> None:
        self.updates = 0
        self._end = b""
        self._come = asyncio.Event()

    def add(self, data: bytes) -> None:
        joined = self._end[1 - len(MARK) :] + data
        self.updates += joined.count(MARK)
        self._end = (self._end + data)[-KEPT:]
        self._come.set()

    async def find(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Wait until something comes that fits; what came before it counts no more."""
        async with asyncio.timeout(PATIENCE):
            while not (found := pattern.search(self._end)):
                self._come.clear()
                await self._come.wait()
        self._end = b""
        return found


def message(id: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def prompt(id: int, session: str, count: int) -> bytes:
    blocks = [{"type": "text", "text": f"say {count}"}]
    return message(id, "session/prompt", {"sessionId": session, "prompt": blocks})


async def timed(seen: Seen, send: Callable[[bytes], Any], session: str, count: int) -> float:
    """Updates a second of one turn, from the prompt to its answer, behind a small one."""
    for id, size in ((3, 100), (4, count)):
        seen.updates, begun = 0, time.perf_counter()
        await send(prompt(id, session, size))
        await seen.find(_ENDED)
        took = time.perf_counter() - begun
        if seen.updates != size:
            raise SystemExit(f"{seen.updates} updates of {size} came")
    return count / took


async def feed(reader: asyncio.StreamReader, seen: Seen) -> None:
    while data := await reader.read(256 * 1024):
        seen.add(data)


# WebSocket


async def over_websocket(port: int, count: int) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" % port
    )
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in head:
        raise SystemExit(f"no WebSocket: {head!r}")
    seen = Seen()
    feeding = asyncio.create_task(feed(reader, seen))

    async def send(text: bytes) -> None:
        size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
        writer.write(b"\x81" + size + b"\0\0\0\0" + text)  # masked with nothing

    try:
        await send(message(1, "initialize", INITIALIZE))
        await seen.find(re.compile(rb'"protocolVersion"'))
        await send(message(2, "session/new", OPENING))
        session = (await seen.find(_SESSION))[1].decode()
        return await timed(seen, send, session, count)
    finally:
        feeding.cancel()
        writer.close()


# HTTP/1.1: one connection for the posts, and one for each stream of events


def head(method: str, port: int, headers: dict[str, str], body: bytes = b"") -> bytes:
    told = {"Host": f"127.0.0.1:{port}", **headers}
    if body:
        told |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"{method} /acp HTTP/1.1\r\n{lines}\r\n".encode() + body


async def over_http1(port: int, count: int) -> float:
    seen, feeding, writers = Seen(), [], []

    async def post(body: bytes, headers: dict[str, str]) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head("POST", port, {"Accept": "application/json", "Connection": "close", **headers}, body))
        answer = await reader.read(-1)
        writer.close()
        told, _, rest = answer.partition(b"\r\n\r\n")
        if not told.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
            raise SystemExit(f"a post failed: {answer!r}")
        return told, rest

    async def events(headers: dict[str, str]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        writer.write(head("GET", port, {"Accept": "text/event-stream", **headers}))
        told = await reader.readuntil(b"\r\n\r\n")
        if not told.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"there is no stream of events: {told!r}")
        feeding.append(asyncio.create_task(feed(reader, seen)))

    try:
        told, _ = await post(message(1, "initialize", INITIALIZE), {})
        (connection,) = re.findall(rb"(?i)acp-connection-id: *([^\r\n]+)", told)
        about = {"Acp-Connection-Id": connection.decode()}
        await events(about)
        await post(message(2, "session/new", OPENING), about)
        session = (await seen.find(_SESSION))[1].decode()
        of_session = {**about, "Acp-Session-Id": session}
        await events(of_session)

        async def send(text: bytes) -> None:
            await post(text, of_session)

        return await timed(seen, send, session, count)
    finally:
        for task in feeding:
            task.cancel()
        for writer in writers:
            writer.close()


# HTTP/2: one connection


class Http2:
    """Requests over one connection; what comes on streams of events is counted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, seen: Seen) -> None:
        self._reader, self._writer, self._port, self._seen = reader, writer, port, seen
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._heads: dict[int, asyncio.Future[dict[str, str]]] = {}
        self._h2.initiate_connection()
        self._flush()

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())

    async def run(self) -> None:
        while data := await self._reader.read(256 * 1024):
            for event in self._h2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    told = [(bytes(name).decode(), bytes(value).decode()) for name, value in event.headers]
                    self._heads[event.stream_id].set_result(dict(told))
                elif isinstance(event, h2.events.DataReceived):
                    self._seen.add(event.data)
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self._flush()

    async def ask(self, method: str, headers: dict[str, str], body: bytes = b"") -> dict[str, str]:
        """The head of the answer."""
        stream = self._h2.get_next_available_stream_id()
        self._heads[stream] = asyncio.get_running_loop().create_future()
        authority = f"127.0.0.1:{self._port}"
        told = {":method": method, ":scheme": "http", ":authority": authority, ":path": "/acp", **headers}
        self._h2.send_headers(stream, list(told.items()), end_stream=not body)
        if body:
            self._h2.send_data(stream, body, end_stream=True)
        self._flush()
        async with asyncio.timeout(PATIENCE):
            found = await self._heads[stream]
        if found[":status"] not in ("200", "202"):
            raise SystemExit(f"a request failed: {found}")
        return found


async def over_http2(port: int, count: int) -> float:
    seen = Seen()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    http = Http2(reader, writer, port, seen)
    running = asyncio.create_task(http.run())
    posted, streamed = {"content-type": "application/json"}, {"accept": "text/event-stream"}
    try:
        told = await http.ask("POST", posted, message(1, "initialize", INITIALIZE))
        about = {"acp-connection-id": told["acp-connection-id"]}
        await http.ask("GET", {**streamed, **about})
        await http.ask("POST", {**posted, **about}, message(2, "session/new", OPENING))
        session = (await seen.find(_SESSION))[1].decode()
        about["acp-session-id"] = session
        await http.ask("GET", {**streamed, **about})

        async def send(text: bytes) -> None:
            await http.ask("POST", {**posted, **about}, text)

        return await timed(seen, send, session, count)
    finally:
        running.cancel()
        writer.close()


WIRES = {"websocket": over_websocket, "http/1.1": over_http1, "http/2": over_http2}

if __name__ == "__main__":
    print(asyncio.run(WIRES[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
