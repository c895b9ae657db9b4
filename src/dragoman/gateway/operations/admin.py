"""The back door, for whoever runs the gateway: a socket in its directory that only they can open.

A line of JSON asks, lines of JSON answer.  None of this is on the listener clients use.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import Error
from ...foundation.documents import Document
from ..gateway import Gateway
from ..log.engine import EngineFailure
from ..log.logs import records
from ..log.records import update_params
from ..log.retention import Retention

SOCKET = "admin.sock"
REFUSAL = b'{"error":'  # how a line begins that says what cannot be done
MAX_LINE = 64 * 1024
LOOK_AGAIN = 1.0  # seconds after which a session that says nothing is looked for again


class GatewayNotRunning(Error):
    """No gateway listens for orders."""


class AdminRequest(Struct):
    """What is asked: `sessions`, `metrics`, `drain`, `expire`, or `attach` to a session."""

    do: str
    session: str = ""
    after: int = 0
    retention: Retention = Retention()
    principal: str | None = None
    dry_run: bool = False


@asynccontextmanager
async def admin_socket(gateway: Gateway, directory: Path, stop: Callable[[], None]) -> AsyncIterator[Path]:
    """Listen for orders; `stop` is called to have the gateway drained and ended."""
    path = directory / SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as exc:
        listener.close()
        raise Error(f"{path} cannot be made: {exc.strerror or exc}") from None
    finally:
        os.umask(before)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            if _is_ours(writer):
                await _obey(gateway, stop, reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(answer, sock=listener, limit=MAX_LINE)
    try:
        yield path
    finally:
        server.close()
        path.unlink(missing_ok=True)


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is the same user, or root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] in (os.getuid(), 0)


async def _obey(
    gateway: Gateway, stop: Callable[[], None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(10):
            order = msgspec.json.decode(await reader.readline(), type=AdminRequest)
    except (msgspec.DecodeError, ValueError):
        _say(writer, {"error": "not an order"})
        return
    match order.do:
        case "sessions":
            for line in _sessions(gateway):
                _say(writer, line)
        case "metrics":
            writer.write(gateway.metrics.text().encode())
        case "drain":
            stop()
            _say(writer, {"draining": True})
        case "expire":
            await _expire(gateway, order, writer)
        case "attach":
            await _follow(gateway, order, reader, writer)
        case _:
            _say(writer, {"error": f"there is no order {order.do!r}"})
    await writer.drain()


async def _expire(gateway: Gateway, order: AdminRequest, writer: asyncio.StreamWriter) -> None:
    """Delete what is beyond a retention, and say what went."""
    try:
        async with contextlib.aclosing(
            gateway.expiry.expire(order.retention, order.principal, is_dry=order.dry_run)
        ) as gone:
            async for one in gone:
                _say(writer, msgspec.to_builtins(one))
                await writer.drain()
    except EngineFailure as exc:
        _say(writer, {"error": str(exc)})


def _sessions(gateway: Gateway) -> list[Document]:
    return [
        {
            "session": session.id,
            "agent": session.facts.agent,
            "principal": session.facts.principal,
            "cwd": session.facts.cwd,
            "seats": len(session.viewers),
            "running": session.turns.running is not None,
            "waiting": len(session.turns.waiting),
            "asks": len(session.asks),
            "records": session.history.durable,
        }
        for session in gateway.live.values()
    ]


async def _follow(
    gateway: Gateway, order: AdminRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Show a session's updates, those to come included, until whoever asked goes or the session is deleted."""
    grown = asyncio.Event()
    end = gateway.engine.listen(order.session, grown.set)
    gone = asyncio.ensure_future(reader.read())
    at = order.after
    try:
        while not gone.done():
            grown.clear()
            if order.session not in gateway.live and await gateway.engine.fact("session", order.session) is None:
                _say(writer, {"error": f"there is no session {order.session!r}"})
                break
            async with contextlib.aclosing(records(gateway.engine, order.session, at)) as news:
                async for record in news:
                    at = record.number
                    if (params := update_params(record.entry.frame)) is not None:
                        writer.write(bytes(params) + b"\n")
                        await writer.drain()
            growing = asyncio.ensure_future(grown.wait())
            await asyncio.wait({growing, gone}, timeout=LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
            growing.cancel()
    finally:
        end()
        gone.cancel()


def _say(writer: asyncio.StreamWriter, line: Document) -> None:
    writer.write(msgspec.json.encode(line) + b"\n")


def ask_admin(directory: Path, order: AdminRequest) -> Iterator[bytes]:
    """Give a running gateway an order; yields its lines, raises Error for what it refuses."""
    path = directory / SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(str(path))
        except OSError as exc:
            raise GatewayNotRunning(
                f"no gateway answers at {path}: {exc.strerror}; is `dragoman serve` running?"
            ) from None
        line.sendall(msgspec.json.encode(order) + b"\n")
        with line.makefile("rb") as answers:
            for answer in answers:
                if answer.startswith(REFUSAL):
                    raise Error(msgspec.json.decode(answer)["error"])
                yield answer
