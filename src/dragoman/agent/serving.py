"""Serves an agent to the client at the other end of a transport, or of stdin and stdout."""

import asyncio
import contextlib
import signal
import sys

from ..connection.connection import Connection
from ..connection.remotes import RemoteClient
from ..errors import ConnectionClosed, brief
from ..foundation.owning import finish, take
from ..roles import AgentRole
from ..transports import Transport, claim
from ..transports.translating import TranslatingTransport
from .agent import Agent
from .apps import App, check_app, entered, made_by
from .logins import limited_logins


async def serve_on(app: App, transport: Transport, *, dialect: str | None = None) -> None:
    """Serve an agent over a transport until the client disconnects.

    The client's dialect is detected from its `initialize` request unless `dialect` names it.
    """
    check_app(app, "serve_on")
    if not hasattr(transport, "listen"):
        raise TypeError(f"serve_on takes an agent class and a transport, and not {brief(repr(transport))}")
    claim(transport)
    await take(_serve_on(app, transport, dialect))


async def _serve_on(app: App, transport: Transport, dialect: str | None) -> None:
    connection = Connection(TranslatingTransport(transport, "client", dialect))
    try:
        async with made_by(app, RemoteClient(connection)) as agent:
            requests, notifications = entered(agent).answers(AgentRole)
            own = isinstance(agent, Agent)  # not a gateway or proxy, which passes logins on
            connection.answer_with(limited_logins(requests, connection) if own else requests, notifications)
            try:
                await connection.run()
            finally:
                if isinstance(agent, Agent):
                    await finish(_end(agent))
    finally:
        await transport.close()


async def _end(agent: Agent) -> None:
    for session in list(agent.sessions.values()):
        await session.end()
    await agent.end_servers()


def serve(app: App, *, dialect: str | None = None) -> None:
    """Serve an agent over stdin and stdout until the client disconnects; any editor can start such a program.

    Exits with a message on stderr if stdin or stdout is closed.
    """
    check_app(app, "serve")
    if asyncio._get_running_loop() is not None:
        told = "serve() runs an event loop of its own, and one runs here already"
        raise RuntimeError(f"{told}: call it outside of `async def`, or use `await serve_on(agent, transport)`")
    from ..transports.stdio import StdioTransport, claimed_stdio

    async def main(read_fd: int, write_fd: int) -> None:
        task = asyncio.current_task()
        assert task
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not on Unix, not in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        transport = StdioTransport()
        await transport.open(read_fd, write_fd)
        await serve_on(app, transport, dialect=dialect)

    with contextlib.ExitStack() as claim:
        try:
            read_fd, write_fd = claim.enter_context(claimed_stdio())
        except ConnectionClosed as exc:
            sys.exit(f"cannot serve: {exc}")
        try:
            asyncio.run(main(read_fd, write_fd))
        except asyncio.CancelledError:
            pass
        except KeyboardInterrupt:
            sys.exit(130)
