"""Reaching an agent, wherever it is, and shaking hands with it."""

import asyncio
import logging
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from .agent import App, serve_on
from .client import Client
from .connection import Connection
from .errors import AgentExited, AgentStartError, ConnectionClosed, RequestTimeout, describe_exit
from .transports import Transport
from .transports.memory import MemoryTransport, pipe
from .transports.translating import TranslatingTransport

log = logging.getLogger("dragoman")

Target = str | Sequence[str] | Transport | App


@asynccontextmanager
async def connect(
    target: Target,
    client: Client | None = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    dialect: str | None = None,
) -> AsyncIterator[Client]:
    """Reach an agent and shake hands: a command, a URL, a transport, or an agent class in this process.

    A command gets `cwd` and `env`, a server the `headers`.
    Which dialect it speaks shows in its answer, unless `dialect` says so beforehand.
    Leaving the block hangs up; an agent that was started here is ended with it.
    """
    client = client or Client()
    async with reach(target, cwd=cwd, env=env, headers=headers) as transport:
        wire = TranslatingTransport(transport, "agent", dialect)
        connection = Connection(wire, quiet=True)
        client.attach(connection)
        running = asyncio.create_task(connection.run(), name="connection")
        try:
            await _shake_hands(client)
            client.dialect = wire.dialect
            yield client
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.take_back()
            client.detach()


async def _shake_hands(client: Client) -> None:
    try:
        await client.initialize()
    except AgentExited as exc:
        reason = f"the agent {describe_exit(exc.status)} before it answered initialize"
        raise AgentStartError(reason, exc.status, exc.stderr) from None
    except ConnectionClosed as exc:
        raise AgentStartError(f"the agent hung up before it answered initialize: {exc}") from None
    except RequestTimeout as exc:
        raise AgentStartError(f"the agent does not start: {exc}") from None


@asynccontextmanager
async def reach(
    target: Target,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Transport]:
    """A wire to whatever can be talked to."""
    if isinstance(target, str) and "://" in target.strip().partition(" ")[0]:
        from .transports.remote import dial

        transport: Transport = await dial(target, headers=headers)
    elif isinstance(target, str | Sequence):
        from .transports.process import spawn

        transport = await spawn(_argv(target), cwd=cwd, env=env)
    elif callable(target):
        transport, theirs = pipe()
        serving = asyncio.create_task(_serve_here(target, theirs), name="agent")
    else:
        transport = target
    try:
        yield transport
    finally:
        await transport.close()
        if callable(target):
            await asyncio.gather(serving)


async def _serve_here(app: App, transport: MemoryTransport) -> None:
    """Run an agent in this process; should it fail, its client learns why."""
    try:
        await serve_on(app, transport)
    except Exception as exc:
        log.exception("the agent in this process failed")
        transport.fail(exc)


def _argv(command: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as exc:
        raise AgentStartError(f"cannot read the command {command!r}: {exc}") from None
