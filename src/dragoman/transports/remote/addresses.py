"""The address of a remote agent: its URL, the headers of every request, the socket to it."""

import asyncio
import contextlib
import ipaddress
import os
import random
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ...errors import AgentStartError
from .proxies import open_tunnel, proxy_for
from .unix_sockets import SCHEME

CONNECTION = "acp-connection-id"
SESSION = "acp-session-id"
LAST_EVENT = "last-event-id"
NUMBER = "idempotency-key"  # the header with the number of a POST, between two ends that resume
GENERATION = "acp-generation"  # the header with the number of the attempt to read, between two ends that resume

DIAL_TIMEOUT = 10.0  # seconds for the socket, TLS and the first answer
SILENCE = 45.0  # seconds without any bytes, keep-alives included, after which a connection counts as dropped
PATIENCE = 60.0  # seconds of attempts to reconnect after a drop
LAST_WORDS = 0.5  # seconds for unsent messages when a transport closes
PING_EVERY = 20.0  # seconds; a WebSocket peer that is silent for twice as long counts as disconnected
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}  # statuses after which another attempt may succeed
LONGEST_PAUSE = 5.0  # seconds between two attempts
SHORTEST_PAUSE = 0.25  # seconds between two attempts when a caller waits
MAX_RETURNS = 100  # reconnects allowed at once, whether or not messages passed
RETURN_RATE = 10.0  # reconnects allowed per second

# Headers that carry a credential, and words that mark the names of other such headers.
CREDENTIALS = ("authorization", "cookie", "api-key", "apikey", "token", "secret", "password", "credential")

PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}

P = TypeVar("P", bound=asyncio.BaseProtocol)
T = TypeVar("T")


class Address(Struct, frozen=True):
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    target: str  # path and query
    socket: str = ""  # the file of a Unix socket, which leads there
    zone: str = ""  # the network interface of a link-local IPv6 address; not sent to the server

    @property
    def is_secure(self) -> bool:
        return self.scheme in ("wss", "https")

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for messages and logs: without its query, which may contain a secret."""
        authority = self.authority.replace("]", f"%25{self.zone}]") if self.zone else self.authority
        place = f"{SCHEME}://{self.socket}:" if self.socket else f"{self.scheme}://{authority}"
        return f"{place}{self.target.partition('?')[0]}"

    @property
    def node(self) -> str:
        """The host in the form that the resolver takes."""
        return f"{self.host}%{self.zone}" if self.zone else self.host

    @property
    def is_local(self) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


def read_url(url: str, headers: Mapping[str, str] | None = None) -> tuple[Address, list[tuple[str, str]]]:
    """The address of a URL and the headers to send; credentials never cross a network without TLS.

    Everything is checked here, before any library sees it.  Errors name a header and never quote its value.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as exc:
        raise AgentStartError(f"this URL cannot be read: {exc}") from None
    if parts.scheme == SCHEME:
        address = _read_socket(parts.netloc, parts.path, parts.query)
        return address, [_read_header(name, value) for name, value in (headers or {}).items()]
    if parts.scheme not in PORTS:
        told = f"there is no transport for {parts.scheme}://" if parts.scheme else f"{url[:80]!r} is no URL"
        raise AgentStartError(f"{told}; a URL looks like wss://example.com/acp or ws://127.0.0.1:8765/acp/coder")
    if not parts.hostname:
        raise AgentStartError(f"a {parts.scheme}:// URL needs a host")
    target = _read_target(parts.path, parts.query)
    host, zone = _read_zone(parts.hostname)
    address = Address(parts.scheme, _read_host(host), port or PORTS[parts.scheme], target, zone=zone)
    sent = [_read_header(name, value) for name, value in (headers or {}).items()]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        sent.append(("authorization", "Basic " + b64encode(pair.encode()).decode()))
    if not address.is_secure and not address.is_local:
        for name in (name for name, _ in sent if any(word in name for word in CREDENTIALS)):
            raise AgentStartError(f"credentials ({name}) are not sent to {address.shown} in the clear; use TLS")
    return address, sent


def _read_socket(netloc: str, path: str, query: str) -> Address:
    """A Unix socket, at which WebSocket is spoken: `unix:///run/acp.sock`, or with a target behind a colon."""
    file, _, target = path.partition(":/")
    if netloc or not file.startswith("/") or file.endswith("/"):
        raise AgentStartError("a unix:// URL has an absolute path, such as unix:///run/dragoman/gateway.sock")
    target = _read_target(f"/{target}" if target else "/acp", query)
    return Address("ws", "localhost", PORTS["ws"], target, socket=unquote(file))


def _read_target(path: str, query: str) -> str:
    target = (path or "/") + (f"?{query}" if query else "")
    if not target.isascii() or any(character <= " " for character in target):
        raise AgentStartError("the path of a URL has to be percent-encoded")
    return target


def _read_zone(host: str) -> tuple[str, str]:
    """A host without its zone, and the zone: `fe80::1%25eth0` as in URLs, or `fe80::1%eth0` as people write it."""
    host, mark, zone = host.partition("%")
    if not mark or ":" not in host:
        return host + mark + zone, ""
    zone = zone.removeprefix("25") or zone
    if zone in (known for index, name in socket.if_nameindex() for known in (str(index), name)):
        return host, zone
    raise AgentStartError(f"this machine has no network interface {zone!r}, which the address {host} names")


def _read_host(host: str) -> str:
    """A host in the form that the resolver takes: in ASCII, without parts that are empty or too long."""
    if ":" in host or host.replace(".", "").isdigit():
        return host
    try:
        ascii_host = host.encode("idna").decode()
    except UnicodeError:
        raise AgentStartError(f"{host!r} is not a host name") from None
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", ascii_host):
        raise AgentStartError(f"{host!r} is not a host name")
    return ascii_host


def _read_header(name: str, value: str) -> tuple[str, str]:
    """A valid header; white space around the value, such as a file's last newline, is removed."""
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise AgentStartError(f"{name!r} is not a header name")
    value = value.strip(" \t\r\n")
    if not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value):
        raise AgentStartError(f"the value of the header {name} has a character that headers cannot have")
    return name.lower(), value


async def open_socket(
    address: Address, tls: ssl.SSLContext | None, protocols: list[str], factory: Callable[[], P]
) -> P:
    """A socket to an address, encrypted where its scheme says so; raises OSError when there is none."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {}
    if address.is_secure:
        # in a thread, since it reads files
        options["ssl"] = tls or await asyncio.to_thread(ssl.create_default_context)
        if protocols:
            options["ssl"].set_alpn_protocols(protocols)
        options["server_hostname"] = address.host
    async with asyncio.timeout(DIAL_TIMEOUT):
        if address.socket:
            transport, protocol = await loop.create_unix_connection(factory, address.socket)
        elif (proxy := proxy_for(address)) is None:
            transport, protocol = await loop.create_connection(factory, address.node, address.port, **options)
        else:
            tunnel = await open_tunnel(proxy, address)
            try:
                transport, protocol = await loop.create_connection(factory, sock=tunnel, **options)
            except BaseException:
                tunnel.close()
                raise
    notice_silence(transport)
    return protocol


def notice_silence(transport: asyncio.BaseTransport) -> None:
    """Make the system end a connection whose peer no longer acknowledges packets."""
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with contextlib.suppress(OSError):  # not a TCP socket
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE * 1000))


def why_unreachable(exc: BaseException) -> str:
    """A short reason why an address was not reached."""
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
    """Reconnects after a drop; while that fails, pauses grow until the patience is used up.

    A reconnect succeeded if a frame arrived after it, or if it lasted.  Reconnects have a rate limit as well, since
    a server could send one frame after each of them and drop the connection.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._deadline: float | None = None
        self._returned_at: float | None = None
        self._pauses = _pauses()
        self._returns: float = MAX_RETURNS  # how many reconnects are allowed at once,
        self._counted_at = asyncio.get_running_loop().time()  # as of then
        self._hurried = asyncio.Event()

    def retry_soon(self) -> None:
        """Make the next attempt soon, since a caller waits for it."""
        self._hurried.set()

    def note_success(self) -> None:
        """Note that a reconnect succeeded: a frame arrived."""
        if self._deadline is not None:
            self._deadline, self._pauses = None, _pauses()

    @property
    def rest(self) -> float:
        """The seconds that are left."""
        return self.patience if self._deadline is None else self._deadline - asyncio.get_running_loop().time()

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works; when the patience is used up, raises the error of the last attempt.

        An attempt raises OSError or TimeoutError for a temporary failure; any other error is final.
        """
        loop = asyncio.get_running_loop()
        if self._returned_at is not None and loop.time() - self._returned_at > LONGEST_PAUSE:
            self.note_success()
        if self._deadline is None:
            self._deadline = loop.time() + self.patience
        elif loop.time() >= self._deadline:
            raise ConnectionResetError(0, "it drops every connection before it sends anything")
        await self._keep_rate()
        for pause in self._pauses:
            # the last attempt is at the deadline
            await self._pause(min(pause, max(self._deadline - loop.time(), 0)))
            try:
                result = await attempt()
            except (OSError, TimeoutError):
                if loop.time() >= self._deadline:
                    raise
            else:
                self._returned_at = loop.time()
                return result
        raise AssertionError("pauses never end")

    async def _keep_rate(self) -> None:
        now = asyncio.get_running_loop().time()
        self._returns = min(MAX_RETURNS, self._returns + (now - self._counted_at) * RETURN_RATE) - 1
        self._counted_at = now
        if self._returns < 0:
            await asyncio.sleep(-self._returns / RETURN_RATE)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, SHORTEST_PAUSE))
        if seconds > SHORTEST_PAUSE:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds - SHORTEST_PAUSE):
                    await self._hurried.wait()
        self._hurried.clear()


def _pauses() -> Iterator[float]:
    """The pauses before each attempt: none, then longer ones, random so that clients do not act in step."""
    yield 0
    pause = 0.05
    while True:
        yield pause * random.uniform(0.5, 1.5)
        pause = min(2 * pause, LONGEST_PAUSE)
