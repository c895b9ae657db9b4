"""A small server for ASGI applications: HTTP/1.1, HTTP/2 and WebSocket on one port, within a running event loop.

`listening(app)` serves until its block is left.  HTTP/2 is used with TLS if the client negotiates it, and without
TLS if the client begins with it.  Beyond ASGI, it takes WebSocket messages many at a time (`dragoman.batch`).
"""

import asyncio
import contextlib
import functools
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ....foundation.listening import stop_listening
from ....framing import MAX_FRAME
from .. import libraries as libraries  # first: it says what to install
from ..addresses import notice_silence
from ..http2 import PREFACE
from ..unix_sockets import SCHEME
from .http1 import Http1Server
from .http2 import Http2Server
from .proxied import ProxyHeaderError, read_proxy_header
from .serving import HEAD_TIMEOUT, Application, InPortions, ServedApplication, SocketGate

log = logging.getLogger("dragoman")

LAST_WORDS = 1.0  # seconds to finish answers when the server stops
BACKLOG = 1024


class Server:
    """A served port; `url` is its address."""

    def __init__(self, sockets: asyncio.Server, host: str, is_secure: bool) -> None:
        self._sockets = sockets
        address = sockets.sockets[0].getsockname()
        self.path: str = address if isinstance(address, str) else ""  # of a Unix socket
        self.port: int = 0 if self.path else address[1]
        name = f"[{host}]" if ":" in host else host
        self.authority = "localhost" if self.path else f"{name}:{self.port}"
        self._leaves_path = False
        self._schemes = ("https", "wss") if is_secure else ("http", "ws")

    @property
    def descriptor(self) -> int:
        """The descriptor of the listening socket, for a process that takes over."""
        return self._sockets.sockets[0].fileno()

    async def stop_accepting(self) -> None:
        """Leave new connections to the other process that has the socket; open ones stay."""
        self._leaves_path = True
        await stop_listening(self._sockets)

    def clear_away(self) -> None:
        """Take the file of a Unix socket away, unless somebody else listens at it."""
        if self.path and not self._leaves_path:
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def url(self, path: str = "/acp", *, websocket: bool = False) -> str:
        if self.path:
            return f"{SCHEME}://{self.path}" if path == "/acp" else f"{SCHEME}://{self.path}:{path}"
        return f"{self._schemes[websocket]}://{self.authority}{path}"


@asynccontextmanager
async def listening(
    app: Application,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: ssl.SSLContext | None = None,
    limit: int = MAX_FRAME,
    listener: socket.socket | None = None,
    gate: SocketGate | None = None,
    proxied: Callable[[str], bool] = lambda host: False,
) -> AsyncIterator[Server]:
    """Serve an ASGI application at an address; port 0 means any free port.

    `gate` says how many sockets are taken; `proxied` of which addresses a connection begins with a header of the
    PROXY protocol, which only a server without TLS can read.

    A `listener` is a socket that already listens, such as a Unix socket; the address then only names it.
    """
    loop = asyncio.get_running_loop()
    if tls:
        tls.set_alpn_protocols(["h2", "http/1.1"])
    served = ServedApplication(app, limit, gate, proxied)
    patience = HEAD_TIMEOUT if tls else None
    protocol = functools.partial(_Undecided, served)
    begin = functools.partial(loop.create_server, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience)
    sockets = await (begin(protocol, sock=listener) if listener else begin(protocol, host, port))
    server = Server(sockets, host, tls is not None)
    try:
        yield server
    finally:
        server.clear_away()
        await stop_listening(sockets)
        await served.close(LAST_WORDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await sockets.wait_closed()


class _Undecided(InPortions):
    """A socket whose protocol is not known yet."""

    transport: asyncio.Transport

    def __init__(self, host: ServedApplication) -> None:
        super().__init__(host)
        self._data = b""
        self._is_proxied = False  # a header of the PROXY protocol comes first
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, lambda: self.transport.abort())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if not self._host.opened(transport):
            transport.abort()
            return
        notice_silence(transport)
        peer = transport.get_extra_info("peername")
        self._is_proxied = isinstance(peer, tuple) and self._host.proxied(peer[0])
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._hand_over(Http2Server)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._is_proxied and not self._take_proxy_header():
            return
        if self._data.startswith(PREFACE):
            self._hand_over(Http2Server)
        elif not PREFACE.startswith(self._data):
            self._hand_over(Http1Server)

    def _take_proxy_header(self) -> bool:
        """Read the PROXY header, and continue after it; false when nothing can follow yet."""
        try:
            header = read_proxy_header(self._data)
        except ProxyHeaderError as exc:
            log.warning("a proxy was disconnected: %s", exc)
            self.transport.abort()
            return False
        if header is None:
            return False
        self._data, self._is_proxied = self._data[header.size :], False
        if header.host is not None:
            self._host.peers[self.transport] = header.host, header.port
        return bool(self._data)

    def _hand_over(self, kind: Callable[[ServedApplication], Http1Server | Http2Server]) -> None:
        self._timer.cancel()
        protocol = kind(self._host)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self._data:
            protocol.data_received(self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._host.lost(self.transport)
