"""The sockets to one HTTP server, opened as they are needed, with the newest version of HTTP that it speaks."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Literal

from ..addresses import DIAL_TIMEOUT, Address, open_socket
from ..cookies import CookieJar
from ..limits import UnfinishedMessages
from .exchange import Carrier, Exchange, Headers, ResponseHead
from .http1 import Http1Socket
from .http2 import Http2Socket

log = logging.getLogger("dragoman")

Version = Literal["1.1", "2"]

PROBE = 2.0  # seconds for a server to show that it speaks HTTP/2
MAX_REST = 1.5  # seconds after which an idle socket is not used again; gunicorn closes it after two
MAX_BODY = 32 * 1024 * 1024
MOST_UNFINISHED = 2  # times the limit of a message: bytes of all incomplete messages


class ServerLink:
    """Exchanges with one server; `version` is the one to use, None to find out."""

    def __init__(
        self, address: Address, headers: Headers, tls: ssl.SSLContext | None, version: Version | None, limit: int
    ) -> None:
        self.address = address
        self.version = version
        self.unfinished = UnfinishedMessages(MOST_UNFINISHED * limit)
        self._headers, self._tls = headers, tls
        self._cookies = CookieJar()
        self._loop = asyncio.get_running_loop()
        self._resting: list[tuple[float, Http1Socket]] = []
        self._sockets: set[Http1Socket | Http2Socket] = set()
        self._dialling = asyncio.Lock()

    async def open(self) -> None:
        """Find out whether the server can be reached, and which version of HTTP it speaks."""
        socket = await self._dial()
        if isinstance(socket, Http1Socket):
            self._rest(socket)

    async def begin(
        self,
        method: str,
        headers: Headers,
        body: bytes,
        heard: Callable[[bytes], None],
        over: Callable[[Exception | None], None],
        *,
        target: str | None = None,
    ) -> Exchange:
        """Send a request; raises OSError when the server cannot be reached."""
        carrier = await self._carrier(lasts=method == "GET")
        exchange = Exchange(carrier, heard, over)
        sent = [("host", self.address.authority), *self._headers, *headers]
        if cookie := self._cookies.header:
            sent.append(("cookie", cookie))
        carrier.start(exchange, method, target or self.address.target, sent, body)
        return exchange

    async def ask(
        self, method: str, headers: Headers, body: bytes = b"", *, target: str | None = None, timeout: float | None
    ) -> tuple[ResponseHead, bytes]:
        """Send a request and wait for its whole answer."""
        parts: list[bytes] = []
        size = 0
        done: asyncio.Future[None] = self._loop.create_future()

        def heard(data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size <= MAX_BODY:
                parts.append(data)
            else:
                exchange.cancel()

        def over(exc: Exception | None) -> None:
            if not done.done():
                done.set_result(None) if exc is None else done.set_exception(exc)

        exchange = await self.begin(method, headers, body, heard, over, target=target)
        try:
            async with asyncio.timeout(timeout):
                reply = await exchange.head()
                self.note(reply)
                await done
        finally:
            exchange.cancel()
            if done.done() and not done.cancelled():
                done.exception()
        return reply, b"".join(parts)

    def note(self, reply: ResponseHead) -> None:
        """Keep the cookies of an answer."""
        self._cookies.store(reply.all("set-cookie"))

    async def close(self) -> None:
        for socket in list(self._sockets):
            await socket.close()
        self._sockets.clear()

    # Sockets

    async def _carrier(self, *, lasts: bool) -> Carrier:
        """A socket for an exchange.

        Over HTTP/1.1 an event stream gets a new socket, for the server may be closing an idle one.
        """
        self._sockets = {socket for socket in self._sockets if not socket.gone.is_set()}
        if socket := self._usable(lasts=lasts):
            return socket
        async with self._dialling:
            return self._usable(lasts=lasts) or await self._dial()

    def _usable(self, *, lasts: bool) -> Carrier | None:
        while self._resting and not lasts:
            since, socket = self._resting.pop()
            if socket.is_usable and self._loop.time() - since < MAX_REST:
                return socket
            socket.transport.abort()
        return next((s for s in self._sockets if isinstance(s, Http2Socket) and s.is_usable), None)

    async def _dial(self) -> Http1Socket | Http2Socket:
        if self.version == "1.1":
            return await self._dial_http1()
        if self.version is None and self.address.is_secure:
            return await self._negotiate()
        socket = await open_socket(self.address, self._tls, ["h2"], self._http2)
        self._sockets.add(socket)
        try:
            async with asyncio.timeout(PROBE if self.version is None else DIAL_TIMEOUT):
                speaks = await socket.is_understood
        except TimeoutError:
            speaks = False
        if speaks:
            self.version = "2"
            return socket
        await socket.close()
        if self.version == "2":
            raise ConnectionResetError(0, "it does not speak HTTP/2")
        log.info("%s does not speak HTTP/2; continuing with HTTP/1.1", self.address.shown)
        return await self._dial_http1()

    async def _dial_http1(self) -> Http1Socket:
        socket = await open_socket(self.address, self._tls, ["http/1.1"], lambda: Http1Socket(self._rest))
        self.version = "1.1"
        self._sockets.add(socket)
        return socket

    async def _negotiate(self) -> Http1Socket | Http2Socket:
        """Let TLS negotiate the version of HTTP."""
        undecided = await open_socket(self.address, self._tls, ["h2", "http/1.1"], _Undecided)
        tls = undecided.transport.get_extra_info("ssl_object")
        socket = self._http2() if tls.selected_alpn_protocol() == "h2" else Http1Socket(self._rest)
        self.version = "2" if isinstance(socket, Http2Socket) else "1.1"
        undecided.hand_over(socket)
        self._sockets.add(socket)
        if isinstance(socket, Http2Socket):
            async with asyncio.timeout(DIAL_TIMEOUT):
                if not await socket.is_understood:
                    raise ConnectionResetError(0, "it hung up")
        return socket

    def _http2(self) -> Http2Socket:
        return Http2Socket(self.address.authority, self.address.scheme)

    def _rest(self, socket: Http1Socket) -> None:
        self._resting.append((self._loop.time(), socket))


class _Undecided(asyncio.Protocol):
    """A socket whose protocol is not known yet."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._data = b""
        self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def hand_over(self, protocol: Http1Socket | Http2Socket) -> None:
        if self._is_lost:
            raise ConnectionResetError(0, "it hung up")
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self._data:
            protocol.data_received(self._data)
