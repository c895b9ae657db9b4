"""A small server for ASGI applications: HTTP/1.1, HTTP/2 and WebSocket on one port, within a running event loop.

`listening(app)` serves until its block is left.  HTTP/2 is spoken with TLS where the client asks for it, and
without when it just begins to.  Beyond ASGI it takes WebSocket messages many at a time (`dragoman.batch`).
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ....framing import MAX_FRAME
from .. import libraries as libraries  # first: it says what to install
from ..addresses import notice_silence
from ..http2 import PREFACE
from .http1 import Http1Server
from .http2 import Http2Server
from .serving import HEAD_TIMEOUT, Application, InPortions, ServedApplication

LAST_WORDS = 1.0  # seconds for answers in the works when the server stops
BACKLOG = 1024


class Server:
    """A port that is being served: `url` leads to it."""

    def __init__(self, sockets: asyncio.Server, host: str, is_secure: bool) -> None:
        self.port: int = sockets.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.authority = f"{name}:{self.port}"
        self._schemes = ("https", "wss") if is_secure else ("http", "ws")

    def url(self, path: str = "/acp", *, websocket: bool = False) -> str:
        return f"{self._schemes[websocket]}://{self.authority}{path}"


@asynccontextmanager
async def listening(
    app: Application,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: ssl.SSLContext | None = None,
    limit: int = MAX_FRAME,
) -> AsyncIterator[Server]:
    """Serve an ASGI application at an address; port 0 is any that is free."""
    loop = asyncio.get_running_loop()
    if tls:
        tls.set_alpn_protocols(["h2", "http/1.1"])
    served = ServedApplication(app, limit)
    patience = HEAD_TIMEOUT if tls else None
    sockets = await loop.create_server(
        lambda: _Undecided(served), host, port, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience
    )
    try:
        yield Server(sockets, host, tls is not None)
    finally:
        sockets.close()
        await served.close(LAST_WORDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await sockets.wait_closed()


class _Undecided(InPortions):
    """A socket of which it is not yet known what is spoken on it."""

    transport: asyncio.Transport

    def __init__(self, host: ServedApplication) -> None:
        super().__init__(host)
        self._data = b""
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, lambda: self.transport.abort())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        notice_silence(transport)
        self._host.sockets.add(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._hand_over(Http2Server)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._data.startswith(PREFACE):
            self._hand_over(Http2Server)
        elif not PREFACE.startswith(self._data):
            self._hand_over(Http1Server)

    def _hand_over(self, kind: Callable[[ServedApplication], Http1Server | Http2Server]) -> None:
        self._timer.cancel()
        protocol = kind(self._host)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self._data:
            protocol.data_received(self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._host.sockets.discard(self.transport)
