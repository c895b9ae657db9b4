"""Wires, and one end of a wire moved by hand: what protocol tests speak raw JSON through."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman import Agent, Client, connect, extension, serve_on
from dragoman.agent.apps import App
from dragoman.framing import MAX_FRAME, Oversize
from dragoman.transports import Transport
from dragoman.transports.memory import pipe
from dragoman.transports.stdio import StdioTransport

PATIENCE = 10.0  # seconds; a test that waits longer has failed


class Hand:
    """One end of a wire: raw frames out, decoded messages in."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.over = asyncio.Event()  # the other side has hung up
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._asked = 0
        transport.listen(self._hear, self.over.set)

    def _hear(self, frames: list[bytes | Oversize]) -> None:
        for frame in frames:
            assert isinstance(frame, bytes), "we were sent an oversize frame"
            self._heard.put_nowait(frame)

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        """Messages in one go, so that they arrive together."""
        self.transport.send([m if isinstance(m, bytes) else msgspec.json.encode(m) for m in messages])

    def request(self, id: Any, method: str, params: Any = None) -> None:
        self.send(request(id, method, params))

    def note(self, method: str, params: Any = None) -> None:
        self.send(note(method, params))

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(PATIENCE):
            message: dict[str, Any] = msgspec.json.decode(await self._heard.get())
        return message

    def received(self) -> list[dict[str, Any]]:
        """Every message that is here by now."""
        return [msgspec.json.decode(self._heard.get_nowait()) for _ in range(self._heard.qsize())]

    async def until(self, id: Any) -> list[dict[str, Any]]:
        """Every message up to the answer with this id."""
        messages = [await self.receive()]
        while messages[-1].get("id") != id or "method" in messages[-1]:
            messages.append(await self.receive())
        return messages

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """The answer to a request; whatever comes before it is thrown away."""
        self._asked += 1
        id = f"by hand {self._asked}"
        self.request(id, method, params)
        return (await self.until(id))[-1]

    async def ping(self) -> list[dict[str, Any]]:
        """What was sent before a ping was answered: the peer is alive, and has nothing more to say."""
        self._asked += 1
        id = f"by hand {self._asked}"
        self.request(id, "_ping")
        *before, pong = await self.until(id)
        assert pong.get("result") == {"pong": True}, pong
        return before


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def note(method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def cancel_request(id: Any) -> dict[str, Any]:
    return note("$/cancel_request", {"requestId": id})


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}, "terminal": True}}


class Ponging(Agent):
    """An agent that says it is alive, and repeats what it is given."""

    @extension("_ping")
    async def pong(self, params: Any) -> Any:
        return {"pong": True}

    @extension("_echo")
    async def echo(self, params: Any) -> Any:
        return params


class PongingClient(Client):
    """A client that says it is alive."""

    @extension("_ping")
    async def pong(self, params: Any) -> Any:
        return {"pong": True}


async def memory_wire(limit: int = MAX_FRAME) -> tuple[Transport, Transport]:
    return pipe()


async def stdio_wire(limit: int = MAX_FRAME) -> tuple[StdioTransport, StdioTransport]:
    """Two ends over two pipes of the operating system; the limit holds for what the second reads."""
    (left_in, right_out), (right_in, left_out) = os.pipe(), os.pipe()
    return await opened(left_in, left_out), await opened(right_in, right_out, limit)


async def socket_wire(limit: int = MAX_FRAME) -> tuple[StdioTransport, StdioTransport]:
    """Two ends over one socket, as editors in Node and Rust make them."""
    left, right = (end.detach() for end in socket.socketpair())
    return await opened(left, os.dup(left)), await opened(right, os.dup(right), limit)


WIRES = {"memory": memory_wire, "stdio": stdio_wire, "socket": socket_wire}


async def opened(read_fd: int, write_fd: int, limit: int = MAX_FRAME) -> StdioTransport:
    transport = StdioTransport(limit)
    await transport.open(read_fd, write_fd)
    return transport


@asynccontextmanager
async def facing_agent(
    app: App = Ponging, wire: str = "memory", *, limit: int = MAX_FRAME, open: bool = True
) -> AsyncIterator[Hand]:
    """The client's end of a wire to an agent; initialized, unless told not to."""
    ours, theirs = await WIRES[wire](limit)
    serving = asyncio.create_task(serve_on(app, theirs))
    hand = Hand(ours)
    try:
        if open:
            await hand.ask("initialize", INITIALIZE)
        yield hand
    finally:
        await ours.close()
        async with asyncio.timeout(PATIENCE):
            await serving


@asynccontextmanager
async def facing_client(
    client: Client | None = None, wire: str = "memory", *, limit: int = MAX_FRAME
) -> AsyncIterator[tuple[Client, Hand]]:
    """A connected client, and the agent's end of its wire."""
    ours, theirs = await WIRES[wire](limit)
    hand = Hand(ours)

    async def shake_hands() -> None:
        message = await hand.receive()
        hand.send({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": 1}})

    answering = asyncio.create_task(shake_hands())
    try:
        async with connect(theirs, client or PongingClient()) as connected:
            await answering
            yield connected, hand
    finally:
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
        await ours.close()


def result(id: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def update(session_id: str, text: str) -> dict[str, Any]:
    """A chunk of what an agent says."""
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return note("session/update", {"sessionId": session_id, "update": chunk})


def resident() -> int:
    """Bytes of memory this process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(pid: int | str = "self") -> int:
    """Bytes of memory a process has had at most."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
