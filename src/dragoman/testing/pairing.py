"""Connect a client and an agent, or one of them and a test that sends raw messages."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar, overload

from ..agent.apps import App
from ..client.client import Client
from ..client.connecting import Target, connect, reach
from ..errors import ConnectionClosed
from ..framing import Oversize
from ..transports import Transport
from ..transports.memory import pipe
from .recording import Received, RecordingClient

C = TypeVar("C", bound=Client)

PATIENCE = 5.0  # seconds to wait for an expected message


@overload
def pair(app: App) -> AbstractAsyncContextManager[RecordingClient]: ...
@overload
def pair(app: App, client: C) -> AbstractAsyncContextManager[C]: ...
def pair(app: App, client: Client | None = None) -> AbstractAsyncContextManager[Client]:
    """`async with pair(MyAgent) as client:` connects the two in this process; the client records everything."""
    return connect(app, client or RecordingClient())


class RawWire:
    """One end of a connection, on which a test sends and receives raw messages."""

    def __init__(self, transport: Transport) -> None:
        self.greeting: Received = {}  # the params of the client's `initialize`
        self._transport = transport
        # None means that the other side hung up
        self._frames: asyncio.Queue[bytes | Oversize | None] = asyncio.Queue()
        self._passed: deque[Received] = deque()  # messages that arrived while an answer was awaited
        self._last_id = 0
        transport.listen(self._hear, lambda: self._frames.put_nowait(None))

    def _hear(self, frames: Iterable[bytes | Oversize]) -> None:
        for frame in frames:
            self._frames.put_nowait(frame)

    def send(self, *messages: Mapping[str, object] | bytes) -> None:
        """Send frames: bytes unchanged, objects as JSON with `jsonrpc` added."""
        self._transport.send(
            [
                message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
                for message in messages
            ]
        )

    def hold(self) -> None:
        """Stop reading, like a peer that cannot keep up."""
        self._transport.hold()

    def resume(self) -> None:
        """Read again after `hold`."""
        self._transport.resume()

    @property
    def queued(self) -> int:
        """How many sent bytes were not taken yet."""
        return self._transport.queued

    async def hang_up(self) -> None:
        """Close the connection."""
        await self._transport.close()

    async def receive(self, timeout: float = PATIENCE) -> Received:
        """The next message; raises ConnectionClosed when the other side hung up, TimeoutError if none arrives."""
        return self._passed.popleft() if self._passed else await self._next(timeout)

    async def receive_bytes(self, timeout: float = PATIENCE) -> bytes:
        """The next frame, unchanged."""
        async with asyncio.timeout(timeout):
            frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
            raise ConnectionClosed("the other side hung up")
        return frame.head if isinstance(frame, Oversize) else frame

    async def answer(self, id: int | str | None, timeout: float = PATIENCE) -> Received:
        """The response with this id; messages before it wait to be received."""
        for message in self._passed:
            if _answers(message, id):
                self._passed.remove(message)
                return message
        async with asyncio.timeout(timeout):
            while not _answers(message := await self._next(timeout), id):
                self._passed.append(message)
        return message

    async def request(self, method: str, params: object = None, timeout: float = PATIENCE) -> Received:
        """Send a request and return the response; messages before it wait to be received."""
        return await self.answer(self.ask(method, params), timeout)

    def ask(self, method: str, params: object = None) -> int:
        """Send a request without waiting; returns its id."""
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": {} if params is None else params})
        return self._last_id

    def tell(self, method: str, params: object = None) -> None:
        """Send a notification."""
        self.send({"method": method, "params": {} if params is None else params})

    async def initialize(self, **params: object) -> Received:
        """Send `initialize` as a client; without params, it offers nothing."""
        return await self.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}, **params})

    async def welcome(self, **answer: object) -> None:
        """Wait for `initialize` and answer it as an agent; its params are kept in `greeting`."""
        request = await self.receive()
        self.greeting = request["params"]
        self.send({"id": request["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}, **answer}})

    async def _next(self, timeout: float) -> Received:
        message: Received = json.loads(await self.receive_bytes(timeout))
        return message


def _answers(message: Mapping[str, object], id: int | str | None) -> bool:
    return "method" not in message and message.get("id") == id


@asynccontextmanager
async def raw(target: Target) -> AsyncIterator[RawWire]:
    """Open a raw connection to an agent, on which a test acts as the client; nothing was sent yet."""
    async with reach(target) as transport:
        yield RawWire(transport)


@asynccontextmanager
async def raw_agent(client: Client | None = None, **answer: object) -> AsyncIterator[tuple[Client, RawWire]]:
    """A client and the other end of its connection, on which a test acts as the agent, after `initialize`.

    `answer` is added to the answer to `initialize`, for example `agentCapabilities={"loadSession": True}`.
    """
    ours, theirs = pipe()
    wire = RawWire(theirs)
    welcome = asyncio.create_task(wire.welcome(**answer), name="welcome")
    try:
        async with connect(ours, client or RecordingClient()) as connected:
            yield connected, wire
    finally:
        welcome.cancel()
        with contextlib.suppress(asyncio.CancelledError, TimeoutError, ConnectionClosed):
            await welcome
