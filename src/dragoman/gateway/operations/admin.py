"""The admin socket of a gateway, in its directory: only the gateway's user can open it.

A request is a line of JSON, its answer is lines of JSON.  Clients' listener offers none of this.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import Error
from ...foundation.documents import Document
from ...foundation.listening import stop_listening
from ...foundation.owning import Visits, log_failure
from ..gateway import Gateway
from ..log.engine import EngineFailure
from ..log.logs import records
from ..log.records import update_params
from ..log.retention import Retention
from .agent_list import agents_of

SOCKET = "admin.sock"
REFUSAL = b'{"error":'  # the beginning of a line that refuses a request
MAX_LINE = 64 * 1024
LOOK_AGAIN = 1.0  # seconds after which a silent session is looked up again


class GatewayNotRunning(Error):
    """No gateway listens for admin requests."""


class AdminRequest(Struct):
    """A request: `sessions`, `metrics`, `drain`, `expire`, `handover`, `agents`, `stop`, `restart`, `attach`."""

    do: str
    session: str = ""
    agent: str = ""
    after: int = 0
    retention: Retention = Retention()
    principal: str | None = None
    dry_run: bool = False
    layout: int = 0  # the layout of the state that a new process writes


HandOver = Callable[[AdminRequest, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[str | None]]


@asynccontextmanager
async def admin_socket(
    gateway: Gateway, directory: Path, stop: Callable[[], None], hand_over: HandOver | None = None
) -> AsyncIterator[Path]:
    """Listen for admin requests; `stop` is called to drain and end the gateway.

    `hand_over` answers a process that takes over.
    """
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
    own = _identity(path)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _is_ours(writer):
                await _obey(gateway, stop, hand_over, reader, writer)
        except (ConnectionError, TimeoutError):
            pass  # the client of the admin socket is gone
        except Exception:
            log_failure("an admin request failed")
        finally:
            writer.close()

    visits = Visits()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.begin(answer(reader, writer), "an admin request")

    server = await asyncio.start_unix_server(accept, sock=listener, limit=MAX_LINE)
    try:
        yield path
    finally:
        await stop_listening(server)
        await visits.end()
        if own == _identity(path):  # or it belongs to the process that has taken over
            path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is the same user, or root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] in (os.getuid(), 0)


async def _obey(
    gateway: Gateway,
    stop: Callable[[], None],
    hand_over: HandOver | None,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    try:
        async with asyncio.timeout(10):
            request = msgspec.json.decode(await reader.readline(), type=AdminRequest)
    except (msgspec.DecodeError, ValueError):
        _say(writer, {"error": "not an admin request"})
        return
    match request.do:
        case "sessions":
            for line in _sessions(gateway):
                _say(writer, line)
        case "metrics":
            writer.write(gateway.metrics.text().encode())
        case "drain":
            stop()
            _say(writer, {"draining": True})
        case "handover" if hand_over:
            if why := await hand_over(request, reader, writer):
                _say(writer, {"error": why})
        case "expire":
            await _expire(gateway, request, writer)
        case "agents":
            for line in agents_of(gateway):
                _say(writer, line)
        case "restart" | "stop":
            _say(writer, await _end_agent(gateway, request))
        case "attach":
            await _follow(gateway, request, reader, writer)
        case _:
            _say(writer, {"error": f"there is no admin request {request.do!r}"})
    await writer.drain()


async def _expire(gateway: Gateway, request: AdminRequest, writer: asyncio.StreamWriter) -> None:
    """Delete sessions beyond a retention, and list them."""
    try:
        async with contextlib.aclosing(
            gateway.expiry.expire(request.retention, request.principal, is_dry=request.dry_run)
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
            "asks": len(session.questions),
            "records": session.history.durable,
        }
        for session in gateway.live.values()
    ]


async def _end_agent(gateway: Gateway, request: AdminRequest) -> Document:
    if request.agent not in gateway.agents:
        return {"error": f"there is no agent {request.agent!r}; there are {', '.join(gateway.agents)}"}
    processes = gateway.processes
    if request.do == "restart":
        ended = await processes.restart(request.agent, request.principal)
    else:
        ended = await processes.stop(request.agent)
    return {"agent": request.agent, "ended": ended}


async def _follow(
    gateway: Gateway, request: AdminRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Show a session's updates, including later ones, until the client leaves or the session is deleted."""
    grown = asyncio.Event()
    end = gateway.engine.listen(request.session, grown.set)
    gone = asyncio.ensure_future(reader.read())
    at = request.after
    try:
        while not gone.done():
            grown.clear()
            id = request.session
            if id not in gateway.live and await gateway.engine.fact("session", id) is None:
                _say(writer, {"error": f"there is no session {id!r}"})
                break
            async with contextlib.aclosing(records(gateway.engine, request.session, at)) as news:
                async for record in news:
                    at = record.number
                    if (params := update_params(record.entry.frame)) is not None:
                        writer.write(bytes(params) + b"\n")
                        await writer.drain()
            growing = asyncio.ensure_future(grown.wait())
            try:
                await asyncio.wait({growing, gone}, timeout=LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
            finally:
                growing.cancel()
    finally:
        end()
        gone.cancel()


def _say(writer: asyncio.StreamWriter, line: Document) -> None:
    writer.write(msgspec.json.encode(line) + b"\n")


def ask_admin(directory: Path, request: AdminRequest) -> Iterator[bytes]:
    """Send an admin request to a running gateway; yields the lines of its answer, raises Error if it refuses."""
    path = directory / SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(str(path))
        except OSError as exc:
            raise GatewayNotRunning(
                f"no gateway answers at {path}: {exc.strerror}; is `dragoman serve` running?"
            ) from None
        line.sendall(msgspec.json.encode(request) + b"\n")
        with line.makefile("rb") as answers:
            for answer in answers:
                if answer.startswith(REFUSAL):
                    raise Error(msgspec.json.decode(answer)["error"])
                yield answer
