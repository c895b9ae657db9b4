"""Reaches an agent, wherever it runs, and does the handshake."""

import asyncio
import contextvars
import functools
import logging
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar, Unpack, overload

from ..agent.apps import App, check_app, made_by
from ..agent.serving import serve_on
from ..connection.connection import Connection
from ..connection.remotes import RemoteClient
from ..errors import AgentExited, AgentStartError, ConnectionClosed, brief, describe_exit
from ..foundation.owning import Held, own, take
from ..roles import AgentRole
from ..transports import Transport, claim
from ..transports.memory import MemoryTransport, pipe
from ..transports.translating import TranslatingTransport
from .client import Client

log = logging.getLogger("dragoman")

START_TIMEOUT = 60.0  # seconds for an agent to answer `initialize`

Target = str | os.PathLike[str] | Sequence[str] | Transport | App
USED = "use `async with connect(…) as client:`"
TARGETS = "a command, a URL, a transport or an agent class"


C = TypeVar("C", bound=Client)


class ConnectOptions(TypedDict, total=False):
    """The keywords of `connect`, for its overloads."""

    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str] | None
    inherit_env: bool
    headers: Mapping[str, str] | None
    on_stderr: Callable[[bytes], None] | None
    dialect: str | None
    start_timeout: float | None


@overload
def connect(
    target: Target, client: None = None, **options: Unpack[ConnectOptions]
) -> AbstractAsyncContextManager[Client]: ...
@overload
def connect(target: Target, client: C, **options: Unpack[ConnectOptions]) -> AbstractAsyncContextManager[C]: ...
@overload
def connect(
    target: Target, client: Client | None, **options: Unpack[ConnectOptions]
) -> AbstractAsyncContextManager[Client]: ...
def connect(
    target: Target,
    client: Client | None = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = True,
    headers: Mapping[str, str] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    dialect: str | None = None,
    start_timeout: float | None = START_TIMEOUT,
) -> AbstractAsyncContextManager[Client]:
    """Connect to an agent: a command, a URL, a transport, or an agent class in this process.

    `async with connect(…) as client:` gives the client that was passed, or a plain `Client`.  Leaving the block
    disconnects, and ends an agent process that was started here.

    A command runs in `cwd` with the variables of `env` added to those of this process, or with these alone if
    `inherit_env` is false; `on_stderr` is called with the bytes it writes to stderr.  `headers` go to a server.
    The dialect is detected from the agent's answer unless `dialect` names it.  The agent has `start_timeout`
    seconds to answer `initialize`; None waits without a limit.  Raises `AgentStartError` if it does not.
    """
    if client is not None and not isinstance(client, Client):
        shown = f"a class: write {client.__name__}()" if isinstance(client, type) else brief(repr(client))
        raise TypeError(f"connect takes an agent and then a client object, and not {shown}")
    way = reach(target, cwd=cwd, env=env, inherit_env=inherit_env, headers=headers, on_stderr=on_stderr)
    return connect_over(way, client, dialect=dialect, start_timeout=start_timeout)


def connect_over(
    way: AbstractAsyncContextManager[Transport],
    client: Client | None = None,
    *,
    dialect: str | None = None,
    start_timeout: float | None = START_TIMEOUT,
) -> AbstractAsyncContextManager[Client]:
    """Do the handshake with an agent as `connect` does, over a transport that the caller opens and closes."""
    return _Connecting(_connected(way, client or Client(), dialect, start_timeout))


class _Connecting(Held[Client]):
    """The result of `connect`; other uses than `async with` raise an error that shows the right use."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"there is no {name} before the agent is reached: {USED}", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{USED}; without an event loop, `with dragoman.blocking.connect(…) as client:`")

        def __exit__(self, *_: object) -> None: ...

        def __await__(self) -> NoReturn:
            raise TypeError(USED)


@asynccontextmanager
async def _connected(
    way: AbstractAsyncContextManager[Transport], client: Client, dialect: str | None, start_timeout: float | None
) -> AsyncIterator[Client]:
    async with way as transport:
        wire = TranslatingTransport(transport, "agent", dialect)
        connection = Connection(wire, quiet=True)
        client.attach(connection)
        connection.start()
        try:
            await _shake_hands(client, transport, start_timeout)
            client.dialect = wire.dialect
            yield client
        finally:
            await _disconnect(client, connection)


async def _disconnect(client: Client, connection: Connection) -> None:
    try:
        await connection.close()
    finally:
        try:
            await client.end_servers()
            await client.take_back()
        finally:
            client.detach()


def failed_start(end: ConnectionClosed) -> AgentStartError:
    """The error for an agent that did not start: why its connection ended, with the stderr of a process."""
    if isinstance(end, AgentExited):
        reason = f"the agent {describe_exit(end.status)} before it answered initialize"
        return AgentStartError(reason, end.status, end.stderr)
    return AgentStartError(f"the agent hung up before it answered initialize: {end}")


async def _shake_hands(client: Client, transport: Transport, timeout: float | None) -> None:
    try:
        async with asyncio.timeout(timeout):
            await client.initialize()
    except ConnectionClosed as exc:
        raise failed_start(exc) from None
    except TimeoutError:
        reason = f"the agent does not start: initialize was not answered in {timeout:g} s"
        raise AgentStartError(reason, stderr=getattr(transport, "stderr", "")) from None


@asynccontextmanager
async def reach(
    target: Target,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = True,
    headers: Mapping[str, str] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
) -> AsyncIterator[Transport]:
    """A transport to a target of any kind."""
    kind = target_kind(target)
    _check_options(kind, headers=headers, cwd=cwd, env=env, on_stderr=on_stderr)
    if kind == "a URL":
        assert isinstance(target, str)
        from ..transports.remote.dialling import dial

        transport: Transport = await take(dial(target, headers=headers), lambda wire: wire.close())
    elif kind == "a command":
        from ..transports.process import spawn

        transport = await spawn(
            _argv(target),  # type: ignore[arg-type]
            cwd=cwd,
            env={**(os.environ if inherit_env else {}), **(env or {})},  # without a name, or it stays to the end
            on_stderr=on_stderr,
        )
    elif kind == "an agent class":
        transport, theirs = pipe()
        # A context of its own: the agent does not see the client's context variables.
        serving = contextvars.Context().run(own, _serve_here(target, theirs), "agent")  # type: ignore[arg-type]
    else:
        transport = target  # type: ignore[assignment]
        claim(transport)
    try:
        yield transport
    finally:
        await transport.close()
        if kind == "an agent class":
            await asyncio.gather(serving)


def target_kind(target: object, caller: str = "connect") -> str:
    """The kind of a target; raises TypeError for a value that is no target."""
    if isinstance(target, str) and "://" in target.strip().partition(" ")[0]:
        return "a URL"
    if isinstance(target, str | os.PathLike | list | tuple):
        return "a command"
    if hasattr(target, "listen"):
        return "a transport"
    check_app(target, caller, TARGETS)
    return "an agent class"


def _check_options(kind: str, **options: object) -> None:
    """Refuse an option that has no effect on this kind of target."""
    for name, value in options.items():
        wanted = "a URL" if name == "headers" else "a command"
        if value is not None and kind != wanted:
            raise TypeError(f"{name}= is for {wanted}, and the agent was given as {kind}")
    for name in ("env", "headers"):
        if (value := options.get(name)) is not None and not _is_of_texts(value):
            raise TypeError(f"{name}= is a dictionary of texts, and not {brief(repr(value))}")
    if (hear := options.get("on_stderr")) is not None and not callable(hear):
        raise TypeError(f"on_stderr= is a function that is given bytes, and not {brief(repr(hear))}")


def _is_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


async def _serve_here(app: App, transport: MemoryTransport) -> None:
    """Run an agent in this process; if it fails, the client gets the reason."""
    try:
        await serve_on(functools.partial(_telling, app, transport), transport)
    except Exception:
        log.exception("the agent in this process failed")


@asynccontextmanager
async def _telling(app: App, transport: MemoryTransport, client: RemoteClient) -> AsyncIterator[AgentRole]:
    try:
        async with made_by(app, client) as agent:
            yield agent
    except Exception as exc:
        transport.fail(exc)
        raise


def _argv(command: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    if isinstance(command, os.PathLike):
        return [os.fspath(command)]
    if not isinstance(command, str):
        if wrong := [word for word in command if not isinstance(word, str | os.PathLike)]:
            raise TypeError(f"the words of a command are texts, and not {brief(repr(wrong[0]))}")
        return [os.fspath(word) for word in command]
    try:
        return shlex.split(command)
    except ValueError as exc:
        raise AgentStartError(f"cannot read the command {command!r}: {exc}") from None
