"""What a careful engineer writes without a library: asyncio's pipes, msgspec's types, and only what the work needs.

It has no checks, no capabilities, no errors, no cancellation and no limits: it is the floor to compare with.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Raw, Struct
from work import document

AGENT = Path(__file__).with_name("bare_agent.py")
IMPORT = "import asyncio, msgspec"
SOFT_LIMIT = 64 * 1024

# The messages


class Envelope(Struct, omit_defaults=True):
    jsonrpc: str = ""
    id: int | None = None
    method: str | None = None
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")


class Request(Struct, tag_field="jsonrpc", tag="2.0"):
    id: int
    method: str
    params: Any


class Note(Struct, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any


class Result(Struct, tag_field="jsonrpc", tag="2.0"):
    id: int
    result: Any


class Text(Struct, tag_field="type", tag="text"):
    text: str


class Chunk(Struct, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: Text


class Update(Struct, rename="camel"):
    session_id: str
    update: Chunk


class Initialize(Struct, rename="camel"):
    protocol_version: int


class NewSession(Struct):
    cwd: str


class SessionCreated(Struct, rename="camel"):
    session_id: str


class Prompt(Struct, rename="camel"):
    session_id: str
    prompt: list[Text]


class Stopped(Struct, rename="camel"):
    stop_reason: str


class ReadFile(Struct, rename="camel"):
    session_id: str
    path: str


class FileContent(Struct):
    content: str


# The loop

_encode = msgspec.json.Encoder().encode
_read_envelope = msgspec.json.Decoder(Envelope).decode

Decode = Callable[[Raw], Any]
Answers = dict[str, tuple[Decode, Callable[[Any], Coroutine[Any, Any, Any]]]]
Hears = dict[str, tuple[Decode, Callable[[Any], None]]]


def reads(tp: Any) -> Decode:
    return msgspec.json.Decoder(tp).decode


class Peer(asyncio.Protocol):
    """One side: a message a line, and notes sent in one turn of the loop go out with one write."""

    def __init__(self, answers: Answers, hears: Hears) -> None:
        self._answers, self._hears = answers, hears
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._pending: dict[int, tuple[Decode, asyncio.Future[Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._out: list[bytes] = []
        self._size = self._last_id = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self.over = asyncio.Event()
        self.reader: asyncio.ReadTransport
        self.writer: asyncio.WriteTransport

    async def open(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self.writer, _ = await self._loop.connect_write_pipe(lambda: _Sink(self._writable), sink)
        self.reader, _ = await self._loop.connect_read_pipe(lambda: self, source)

    async def call(self, method: str, params: Struct, decode: Decode) -> Any:
        self._last_id += 1
        answer = self._loop.create_future()
        self._pending[self._last_id] = decode, answer
        self._put(Request(self._last_id, method, params))
        self._flush()
        return await answer

    async def note(self, method: str, params: Struct) -> None:
        """Tell; waits while the other side does not keep up."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._put(Note(method, params))
        if self._size > SOFT_LIMIT:
            self._flush()
            await self._writable.wait()
            await asyncio.sleep(0)

    def _put(self, message: Struct) -> None:
        frame = _encode(message)
        self._out.append(frame)
        self._size += len(frame)

    def _flush(self) -> None:
        if self._out:
            out, self._out, self._size = self._out, [], 0
            self.writer.write(b"\n".join([*out, b""]))

    def data_received(self, data: bytes) -> None:
        first, *lines = data.split(b"\n")
        self._parts.append(first)
        if lines:
            rest = lines.pop()
            self._hear(b"".join(self._parts))
            for line in lines:
                self._hear(line)
            self._parts = [rest]

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()

    def _hear(self, line: bytes) -> None:
        message = _read_envelope(line)
        if message.method is None:
            decode, answer = self._pending.pop(message.id)  # type: ignore[arg-type]
            answer.set_result(decode(message.result))
        elif message.id is None:
            decode, hear = self._hears[message.method]
            hear(decode(message.params))
        else:
            decode, handler = self._answers[message.method]
            task = self._loop.create_task(self._answer(message.id, handler(decode(message.params))))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, id: int, result: Coroutine[Any, Any, Any]) -> None:
        self._put(Result(id, await result))
        self._flush()


class _Sink(asyncio.BaseProtocol):
    def __init__(self, writable: asyncio.Event) -> None:
        self.pause_writing = writable.clear  # type: ignore[method-assign]
        self.resume_writing = writable.set  # type: ignore[method-assign]


# The client

_initialized, _created, _stopped = reads(Initialize), reads(SessionCreated), reads(Stopped)


class Link:
    def __init__(self) -> None:
        self.peer = Peer(
            {"fs/read_text_file": (reads(ReadFile), self._read)}, {"session/update": (reads(Update), self._count)}
        )
        self._updates: Counter[str] = Counter()

    def _count(self, params: Update) -> None:
        self._updates[params.session_id] += 1

    async def _read(self, params: ReadFile) -> FileContent:
        return FileContent(document(params.path))

    async def new_session(self) -> str:
        session: SessionCreated = await self.peer.call("session/new", NewSession(os.getcwd()), _created)
        return session.session_id

    async def prompt(self, session: str, text: str) -> int:
        """Run a turn; gives how many updates it had."""
        before = self._updates[session]
        await self.peer.call("session/prompt", Prompt(session, [Text(text)]), _stopped)
        return self._updates[session] - before


@asynccontextmanager
async def start(*agent: str) -> AsyncIterator[Link]:
    """An agent's process that has answered `initialize`."""
    command = [sys.executable, *(agent or [str(AGENT)])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin and process.stdout
    link = Link()
    await link.peer.open(process.stdout, process.stdin)
    try:
        await link.peer.call("initialize", Initialize(1), _initialized)
        yield link
    finally:
        link.peer.writer.close()
        await link.peer.over.wait()
        process.wait()
