"""The common part of the server's protocols: the application, its tasks, a request and its answer.

It also keeps one client from slowing down the others: sockets are read in turn, in small portions; actions that
cost the client less than us are counted (`limits`); a message that has begun must be complete in time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from ....foundation.owning import Work
from ..unix_sockets import credentials_of
from .answers import Event, Receive, Scope, Send

log = logging.getLogger("dragoman")

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]

HEAD_TIMEOUT = 10.0  # seconds for a request's head, and for the first byte
BODY_TIMEOUT = 20.0  # seconds for a body, and one more for each of these many bytes:
SLOWEST = 4096
BODY_ROOM = 256 * 1024  # waiting bytes of a body above which the sender has to wait
PORTION = 16 * 1024  # bytes read from one socket before the others have their turn
MAX_HELD = 96 * 1024 * 1024  # bytes of incomplete messages of all clients together


class SocketGate(Protocol):
    """Decides whether another socket is accepted."""

    def enter(self) -> bool:
        """Accept a socket if there is room; each accepted one must leave."""

    def leave(self) -> None: ...


class ServedApplication:
    """A served application, and its open sockets and tasks.

    `proxied` tells for an address whether its connections begin with a header of the PROXY protocol.
    """

    def __init__(
        self,
        app: Application,
        limit: int,
        gate: SocketGate | None = None,
        proxied: Callable[[str], bool] = lambda host: False,
    ) -> None:
        self.app, self.limit = app, limit
        self.proxied, self._gate = proxied, gate
        self.peers: dict[asyncio.Transport, tuple[str, int]] = {}  # the client's address, from the proxy's header
        self.portion = memoryview(bytearray(PORTION))  # the buffer into which every socket is read
        self.held = 0  # bytes of incomplete messages
        self.sockets: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, transport: asyncio.Transport) -> bool:
        """Accept a socket; false when there is no room for it."""
        if self._gate and not self._gate.enter():
            return False
        self.sockets.add(transport)
        return True

    def lost(self, transport: asyncio.Transport) -> None:
        self.peers.pop(transport, None)
        if transport in self.sockets:
            self.sockets.discard(transport)
            if self._gate:
                self._gate.leave()

    def start(self, answering: Work[None]) -> asyncio.Task[None]:
        task = asyncio.create_task(answering, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, patience: float) -> None:
        """Give unfinished answers some time, then close every socket."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=patience)
        for transport in list(self.sockets):
            transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=patience)
        await asyncio.sleep(0)  # sockets are closed in the loop's next iteration


class InPortions(asyncio.BufferedProtocol):
    """A socket that is read in small portions, so that no client can occupy the loop."""

    def __init__(self, host: ServedApplication) -> None:
        self._host = host

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._host.portion

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._host.portion[:nbytes]))

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError


def http_scope(
    host: ServedApplication, transport: asyncio.Transport, version: str, method: str, target: bytes, headers: Pairs
) -> Scope:
    """A request as ASGI describes it."""
    path, _, query = target.partition(b"?")
    peer = host.peers.get(transport) or transport.get_extra_info("peername")
    own = transport.get_extra_info("sockname")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": version,
        "method": method,
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        "path": _unquoted(path),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": tuple(peer[:2]) if isinstance(peer, tuple) else None,
        "server": tuple(own[:2]) if isinstance(own, tuple) else None,
        "extensions": {
            "tls": {"object": transport.get_extra_info("ssl_object")},
            "peer_credentials": credentials_of(transport),
        },
    }


def _unquoted(path: bytes) -> str:
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(path).decode(errors="replace") if b"%" in path else path.decode("latin-1")


class RequestBody:
    """A request's body, to be read by the application; `too_slow` is called when it does not arrive in time."""

    def __init__(self, took: Callable[[int], None], too_slow: Callable[[], None]) -> None:
        self.size = 0  # waiting bytes
        self._took, self._too_slow = took, too_slow
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + BODY_TIMEOUT
        self._timer = self._loop.call_at(self._deadline, self._look)
        self._parts: deque[bytes] = deque()
        self._is_whole = False
        self._told = False  # the application has been given the end
        self._gone = False
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        self._parts.append(data)
        self.size += len(data)
        self._deadline += len(data) / SLOWEST
        self._changed.set()

    def end(self) -> None:
        self._is_whole = True
        self._timer.cancel()
        self._changed.set()

    def lose(self) -> None:
        """Note that the client has disconnected."""
        self._gone = True
        self._timer.cancel()
        self._changed.set()

    def _look(self) -> None:
        """Check that the body arrives in time; bytes that we do not read are not the client's fault."""
        now = self._loop.time()
        if self.size:
            self._deadline = max(self._deadline, now + BODY_TIMEOUT)
        if now < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._too_slow()

    @property
    def is_whole(self) -> bool:
        return self._is_whole

    async def receive(self) -> Event:
        while True:
            if self._parts or (
                self._is_whole and not self._told
            ):  # a complete request counts, even if its client has disconnected
                data = b"".join(self._parts)
                self._parts.clear()
                self.size = 0
                self._told = self._is_whole
                self._took(len(data))
                return {"type": "http.request", "body": data, "more_body": not self._is_whole}
            if self._gone:
                return {"type": "http.disconnect"}
            self._changed.clear()
            await self._changed.wait()


async def run(app: Application, scope: Scope, receive: Receive, send: Send) -> bool:
    """Let the application answer; false when it failed, which is not the client's fault."""
    if scope.get("method") == "HEAD":
        send = _head_alone(send)
    try:
        await app(scope, receive, send)
    except (OSError, asyncio.CancelledError):  # the client has disconnected, or was replaced by a newer reader
        return False
    except Exception:
        log.exception("the application failed to answer %s %s", scope.get("method", "GET"), scope["path"])
        return False
    return True


def _head_alone(send: Send) -> Send:
    """An answer to HEAD: the application's body is not sent."""

    async def sending(event: Event) -> None:
        await send({**event, "body": b""} if event["type"] == "http.response.body" else event)

    return sending
