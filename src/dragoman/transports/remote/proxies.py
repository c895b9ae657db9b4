"""Connect through the proxy that the environment names: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.

Everything goes through a tunnel (CONNECT), so that the proxy sees only the destination.
"""

import asyncio
import socket
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from msgspec import Struct

from ...errors import AgentStartError

if TYPE_CHECKING:
    from .addresses import Address

MAX_HEAD = 16 * 1024  # bytes of a proxy's answer


class WebProxy(Struct, frozen=True):
    host: str
    port: int
    credentials: str  # the value of Proxy-Authorization; empty for none

    @property
    def shown(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(address: "Address") -> WebProxy | None:
    """The proxy for an address; None for this machine, link-local addresses, and if none is configured."""
    if address.is_local or address.zone or proxy_bypass_environment(f"{address.host}:{address.port}"):
        return None
    known = getproxies_environment()
    url = known.get("https" if address.is_secure else "http") or known.get("all")
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme != "http":
        raise AgentStartError(
            "the proxy that the environment names cannot be used: its URL must begin with http://"
        )
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return WebProxy(host, port, b64encode(pair.encode()).decode() if parts.username else "")


async def open_tunnel(proxy: WebProxy, address: "Address") -> socket.socket:
    """A socket to an address through a proxy; raises OSError when it cannot be reached."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    tunnel = socket.socket(family, kind, protocol)
    try:
        tunnel.setblocking(False)
        await loop.sock_connect(tunnel, place)
        host = f"[{address.host}]" if ":" in address.host else address.host
        target = f"{host}:{address.port}"
        login = f"Proxy-Authorization: Basic {proxy.credentials}\r\n" if proxy.credentials else ""
        request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n"
        await loop.sock_sendall(tunnel, request.encode())
        head = b""
        while b"\r\n\r\n" not in head:
            data = await loop.sock_recv(tunnel, MAX_HEAD - len(head))
            if not data:
                raise ConnectionResetError(0, f"the proxy at {proxy.shown} hung up")
            head += data
        status = head.split(b" ", 2)[1:2]
        if not head.startswith(b"HTTP/1.") or status != [b"200"]:
            told = b"".join(status).decode("latin-1")[:3]
            raise ConnectionRefusedError(0, f"the proxy at {proxy.shown} answered with status {told}")
    except BaseException:
        tunnel.close()
        raise
    return tunnel
