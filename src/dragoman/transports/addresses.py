"""Where a remote agent is: its URL, the headers every request carries, the socket that leads there."""

import asyncio
import contextlib
import ipaddress
import os
import random
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ..errors import AgentStartError

CONNECTION = "acp-connection-id"
SESSION = "acp-session-id"
LAST_EVENT = "last-event-id"
NUMBER = "idempotency-key"  # of a POST between two ends that resume

DIAL_TIMEOUT = 10.0  # seconds for a socket, its TLS and the first answer
SILENCE = 45.0  # seconds without a sign of life, keep-alives included, after which a wire counts as dropped
PATIENCE = 60.0  # seconds to try to come back after a drop
LAST_WORDS = 0.5  # seconds for what is still on its way when a wire closes
PING_EVERY = 20.0  # seconds; whoever is silent for twice as long on a WebSocket is gone
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}  # statuses after which another try may do
LONGEST_PAUSE = 5.0  # seconds between two tries

PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}

P = TypeVar("P", bound=asyncio.BaseProtocol)
T = TypeVar("T")


class Address(Struct, frozen=True):
    """A URL taken apart."""

    scheme: str
    host: str
    port: int
    target: str  # path and query

    @property
    def is_secure(self) -> bool:
        return self.scheme in ("wss", "https")

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for people: without its query, which may hold a secret."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    @property
    def is_local(self) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


def read_url(url: str, headers: Mapping[str, str] | None = None) -> tuple[Address, list[tuple[str, str]]]:
    """A URL as an address and the headers to send there; credentials never go over an open network in the clear."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as exc:
        raise AgentStartError(f"this URL cannot be read: {exc}") from None
    if parts.scheme not in PORTS:
        raise AgentStartError(f"no transport for {parts.scheme}://: use ws, wss, http or https")
    if not parts.hostname:
        raise AgentStartError(f"a {parts.scheme}:// URL needs a host")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or any(character <= " " for character in target):
        raise AgentStartError("the path of a URL has to be percent-encoded")
    address = Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], target)
    sent = [(name.lower(), value) for name, value in (headers or {}).items()]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        sent.append(("authorization", "Basic " + b64encode(pair.encode()).decode()))
    if any(name == "authorization" for name, _ in sent) and not address.is_secure and not address.is_local:
        raise AgentStartError(f"credentials are not sent to {address.shown} in the clear; use TLS")
    return address, sent


async def open_socket(
    address: Address, tls: ssl.SSLContext | None, protocols: list[str], factory: Callable[[], P]
) -> P:
    """A socket to an address, encrypted where its scheme says so; raises OSError when there is none."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {}
    if address.is_secure:
        options["ssl"] = tls or ssl.create_default_context()
        if protocols:
            options["ssl"].set_alpn_protocols(protocols)
    async with asyncio.timeout(DIAL_TIMEOUT):
        transport, protocol = await loop.create_connection(factory, address.host, address.port, **options)
    notice_silence(transport)
    return protocol


def notice_silence(transport: asyncio.BaseTransport) -> None:
    """Have the system give up on a peer that no longer acknowledges what it is sent."""
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with contextlib.suppress(OSError):  # not a TCP socket
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE * 1000))


def why_unreachable(exc: BaseException) -> str:
    """What kept us from an address, in a few words."""
    if isinstance(exc, TimeoutError) and not isinstance(exc, socket.gaierror):
        return "no answer in time"
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, socket.gaierror):
        return "there is no such host"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc) or type(exc).__name__


class Persistence:
    """Tries to come back after a drop: pauses grow, and patience runs out, as long as they lead to nothing."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._deadline: float | None = None
        self._pauses = _pauses()

    def reward(self) -> None:
        """It was worth it: something was heard again."""
        if self._deadline is not None:
            self._deadline, self._pauses = None, _pauses()

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works; when patience is over, raises what the last try raised.

        An attempt raises OSError or TimeoutError for what may pass; anything else is final.
        """
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self.patience
        for pause in self._pauses:
            await asyncio.sleep(pause)
            try:
                return await attempt()
            except (OSError, TimeoutError):
                if loop.time() >= self._deadline:
                    raise
        raise AssertionError("pauses never end")


def _pauses() -> Iterator[float]:
    """How long to wait before each try: not at all, then longer and longer, never in step with others."""
    yield 0
    pause = 0.05
    while True:
        yield pause * random.uniform(0.5, 1.5)
        pause = min(2 * pause, LONGEST_PAUSE)
