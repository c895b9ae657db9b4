"""The network of isolated agents: empty except for a proxy that connects them to listed hosts.

Agents find the proxy by the usual variables.  It speaks `CONNECT` and plain HTTP with absolute addresses, on a Unix
socket that only they see; `forwarder.py` connects a port inside to it.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ...foundation.listening import stop_listening
from ...foundation.owning import Visits
from ...foundation.programs import python_command

log = logging.getLogger("dragoman")

PROGRAM = Path(__file__).with_name("forwarder.py")
PORT = 3128  # inside, where nothing else listens
PATIENCE = 30.0  # seconds for a request's head, and for a connection
MOST_HEAD = 16 * 1024
MOST_CONNECTIONS = 100
PIECE = 1 << 16
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyRefused(Exception):
    """A request that is not passed on: the status to answer with, and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def interpreter() -> list[str]:
    """The files that must be visible inside, besides the directory, so that the proxy can be reached."""
    return [] if sys.base_prefix.startswith("/usr") else [sys.base_prefix]


class NetworkProxy:
    """A proxy to some hosts and ports; `open` it, `close` it.

    Each agent process has its own, so that none can disturb another.  Its `directory` must be visible inside.
    """

    def __init__(self, allowed: Collection[tuple[str, int]]) -> None:
        self._allowed = allowed
        self.directory = tempfile.mkdtemp(prefix="dragoman-network-")
        os.chmod(self.directory, 0o711)  # for any user that the agent has inside
        self._socket = os.path.join(self.directory, "proxy")
        self._server: asyncio.Server | None = None
        self._visits = Visits()

    def through(self, argv: Sequence[str]) -> list[str]:
        """A command that runs another one with the proxy on a port of its network."""
        program = PROGRAM.read_text(encoding="utf-8")
        python, *words = python_command("-c", program, self._socket, str(PORT), site=False)
        return [os.path.realpath(python), *words, *argv]

    @property
    def environ(self) -> Mapping[str, str]:
        address = f"http://127.0.0.1:{PORT}"
        return {spelt: address for name in VARIABLES for spelt in (name, name.lower())}

    async def open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._accept, self._socket, limit=MOST_HEAD)
            os.chmod(self._socket, 0o666)

    async def close(self) -> None:
        if self._server:
            await stop_listening(self._server)
        await self._visits.end()
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visits) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._visits.begin(self._serve((reader, writer)), "a way out")

    async def _serve(self, near: Streams) -> None:
        try:
            await self._connect(near)
        except ProxyRefused as exc:
            log.info("an isolated agent is refused a connection: %s", exc)
            text = f"{exc}\n".encode()
            head = f"HTTP/1.1 {exc.status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            near[1].write(head.encode() + text)
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await near[1].drain()
        except OSError:
            pass  # the agent has disconnected
        except Exception:
            log.exception("a way out failed")
        finally:
            near[1].close()

    async def _connect(self, near: Streams) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                head = await near[0].readuntil(b"\r\n\r\n")
                host, port, is_tunnel = _wanted(head)
                if (host, port) not in self._allowed:
                    raise ProxyRefused("403 Forbidden", f"{host}:{port} is not on the list of --network")
                far = await asyncio.open_connection(host, port)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise ProxyRefused("400 Bad Request", "this is not a request to a proxy") from None
        except OSError as exc:  # TimeoutError is one, too
            raise ProxyRefused("502 Bad Gateway", f"it cannot be reached: {exc or 'no answer in time'}") from None
        try:
            if is_tunnel:
                near[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far[1].write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(near[0], far[1]))
                both.create_task(_pass_on(far[0], near[1]))
        finally:
            far[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _wanted(head: bytes) -> tuple[str, int, bool]:
    """The host and port a request is for, and whether it wants a tunnel."""
    try:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        is_tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = parts.hostname, parts.port or (443 if is_tunnel else 80)
    except ValueError:
        host = None
    if not host:
        raise ProxyRefused("400 Bad Request", "this is not a request to a proxy")
    return host.lower(), port, is_tunnel


def allowed_places(hosts: Sequence[str]) -> set[tuple[str, int]]:
    """The hosts and ports of a list of `HOST` (ports 80 and 443) and `HOST:PORT`; raises ValueError."""
    return {place for host in hosts for place in _places(host)}


def _places(named: str) -> list[tuple[str, int]]:
    parts = urlsplit(f"//{named}")
    if not parts.hostname or parts.path or parts.username is not None or "*" in named:
        raise ValueError(f"not a host: {named!r}")
    return [(parts.hostname.lower(), port) for port in ([parts.port] if parts.port else (80, 443))]
