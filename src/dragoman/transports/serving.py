"""What the server's protocols share: the application, the tasks that run it, one request and its answer."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from .asgi_streams import Receive, Scope, Send

log = logging.getLogger("dragoman")

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]

HEAD_TIMEOUT = 10.0  # seconds for a request's head, and for the first byte
BODY_ROOM = 256 * 1024  # bytes of a body that wait before the sender has to


class Host:
    """An application being served, and everything that is open for it."""

    def __init__(self, app: Application, limit: int) -> None:
        self.app, self.limit = app, limit
        self.sockets: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(answering, name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, patience: float) -> None:
        """Let answers in the works finish, for a while, and close every socket."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=patience)
        for transport in list(self.sockets):
            transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=patience)
        await asyncio.sleep(0)  # sockets are closed in the next round of the loop


def http_scope(
    transport: asyncio.Transport, version: str, method: str, target: bytes, headers: Pairs
) -> dict[str, Any]:
    """A request as ASGI describes it."""
    path, _, query = target.partition(b"?")
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
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
        "extensions": {"tls": {"object": transport.get_extra_info("ssl_object")}},
    }


def _unquoted(path: bytes) -> str:
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(path).decode(errors="replace") if b"%" in path else path.decode("latin-1")


class Body:
    """A request's body on its way to the application."""

    def __init__(self, took: Callable[[int], None]) -> None:
        self.size = 0  # bytes that wait
        self._took = took
        self._parts: deque[bytes] = deque()
        self._is_whole = False
        self._told = False  # the application has been given the end
        self._gone = False
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        self._parts.append(data)
        self.size += len(data)
        self._changed.set()

    def end(self) -> None:
        self._is_whole = True
        self._changed.set()

    def lose(self) -> None:
        """The client is gone."""
        self._gone = True
        self._changed.set()

    @property
    def is_whole(self) -> bool:
        return self._is_whole

    async def receive(self) -> MutableMapping[str, Any]:
        while True:
            if self._parts or (self._is_whole and not self._told):  # what came whole counts, whoever left since
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
    """Have the application answer; false when it failed, which is its own fault and not the client's."""
    try:
        await app(scope, receive, send)
    except OSError:  # the client is gone
        return False
    except Exception:
        log.exception("the application failed to answer %s %s", scope.get("method", "GET"), scope["path"])
        return False
    return True
