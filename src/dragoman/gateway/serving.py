"""`dragoman serve`: a gateway put together from what its command line says, and ended in good order."""

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import shutil
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ..errors import Error
from ..foundation import directories
from ..foundation.destinations import PUBLIC_ONLY
from ..host.isolation.boundaries import Own, Writable, overlap, own_things
from ..host.processes import Launch
from ..host.terminals.sandbox import landlock
from ..transports.remote.server.certificates import reload_certificate
from .access.admission import Admission
from .access.checks import Checks
from .access.guard import local_names
from .access.quotas import Quotas
from .access.tokens import TokenFile, add_token
from .access.workspaces import Workspaces
from .agents.upstream import Hosted
from .gateway import Gateway, running
from .log.retention import Retention
from .log.session_facts import Detached
from .log.sqlite import SqliteEngine
from .operations.admin import admin_socket
from .operations.offline import only_one
from .operations.supervision import VARIABLES, supervised
from .web import Web

if TYPE_CHECKING:
    from .access.signed import SignedTokens

log = logging.getLogger("dragoman")

KEPT_BACK = ("DRAGOMAN_TOKEN", *VARIABLES)  # of our environment from agents


class ServeOptions(Struct, kw_only=True):
    """What to serve, where, and to whom."""

    agents: Mapping[str, Hosted]
    state: Path
    host: str = "127.0.0.1"
    port: int = 0
    tokens: Path | None = None
    is_open: bool = False  # no credential is asked for, on this machine alone
    tls: tuple[str, str] | None = None
    client_ca: str | None = None
    signed: "SignedTokens | None" = None
    names: Sequence[str] = ()
    origins: Sequence[str] = ()
    workspace: str | None = None
    mcp_commands: Sequence[str] = ()
    limits: Quotas = Quotas()
    detached: Detached = Detached()
    retention: Retention = Retention()
    level: Literal["process", "power"] = "power"
    drain: float = 3.0  # seconds for turns to finish when the gateway is told to stop


def environment(launch: Launch) -> dict[str, str]:
    """What an agent's process gets: its own settings, and of our environment no token of ours.

    Our own agents are told to keep to the public internet: what is private here is not their clients'.
    """
    given = {PUBLIC_ONLY: "1", **launch.environment}
    return {name: value for name, value in given.items() if name not in KEPT_BACK or name in launch.env}


class CannotListen(Error):
    """The address to listen on is taken, or none of this machine's."""


def state_directory() -> Path:
    """Where a gateway keeps everything, unless it is told otherwise."""
    return directories.gateway_directory()


async def serve(order: ServeOptions, ready: Callable[[str], None]) -> None:
    """Serve until told to stop; `ready` is called with the URL once clients can come."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # until there is something to read again
    async with serving(order, stopping.set) as (_, url), supervised():
        ready(url)
        await stopping.wait()


@asynccontextmanager
async def serving(order: ServeOptions, stop: Callable[[], None]) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway that is being served, and its URL; it is drained before its clients' connections end."""
    check_exposure(order)
    tls = _tls(order)
    with held_state(order.state) as keep:
        checks = Checks(workspace=order.workspace, commands=frozenset(order.mcp_commands))
        engine = SqliteEngine(order.state, order.level)
        gateway = Gateway(
            engine,
            order.agents,
            limits=order.limits,
            checks=checks,
            detached=order.detached,
            retention=order.retention,
        )
        try:
            web = Web(gateway, _admission(order, gateway), origins=order.origins)
        except BaseException:
            await gateway.engine.close()
            raise
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(running(gateway))
            check_apart(order, gateway.workspaces)
            if walled(order):
                log.info("%s", landlock.described(landlock.version()))
            try:
                from ..transports.remote.server.server import listening

                server = await stack.enter_async_context(listening(web, order.host, order.port, tls=tls))
            except ModuleNotFoundError:
                raise Error("`dragoman serve` needs the gateway extra: pip install 'dragoman[gateway]'") from None
            except OSError as exc:
                raise CannotListen(f"cannot listen on {order.host}:{order.port}: {exc.strerror or exc}") from None
            web.guard.hosts |= _names(order, server.port)
            _reload_on_hangup(tls, order.tls)
            await stack.enter_async_context(admin_socket(gateway, order.state, stop))
            await stack.enter_async_context(web.watching())
            keep()
            try:
                yield gateway, server.url(websocket=True)
            finally:
                log.info("stopping: nothing new is taken")
                await gateway.drain(order.drain)


def check_exposure(order: ServeOptions) -> None:
    """Refuse to be reachable from elsewhere without a credential and without encryption."""
    if is_loopback(order.host):
        return
    if order.is_open:
        raise Error("--no-auth is for this machine alone: listen on 127.0.0.1, or ask for tokens")
    if order.tls is None:
        raise Error(
            f"to listen on {order.host} takes --tls CERT KEY; behind a proxy that has it, listen on 127.0.0.1"
        )


def walled(order: ServeOptions) -> list[Hosted]:
    """The agents that run in sandboxes, or whose commands do."""
    return [agent for agent in order.agents.values() if agent.sandbox or agent.isolated]


def check_apart(order: ServeOptions, workspaces: Workspaces) -> None:
    """Refuse to put anything of the gateway's where sandboxes write or can see it."""
    inside = walled(order)
    if not inside or workspaces.pattern is None:
        return
    files = [order.state, *([order.tokens] if order.tokens else ()), *(order.tls or ())]
    own = own_things(*(Own(os.path.realpath(path), "a file of the gateway", "keep it elsewhere") for path in files))
    visible = [path for agent in inside for path in agent.visible]
    others = Own(workspaces.top, "where everybody's workspace is")
    why = overlap([Writable(workspaces.real_pattern)], (), own) or overlap((), visible, [*own, others])
    if why:
        raise Error(f"the sandbox would not hold: {why}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def held_state(directory: Path) -> Iterator[Callable[[], None]]:
    """The directory of a gateway, made if need be and held; a failure before `keep` leaves nothing new in it."""
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = set(os.listdir(directory))
    is_kept = False

    def keep() -> None:
        nonlocal is_kept
        is_kept = True

    with only_one(directory):
        try:
            yield keep
        except BaseException:
            if not is_kept:
                for path in (directory / name for name in set(os.listdir(directory)) - before):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                for path in made:
                    path.rmdir()
            raise


def _admission(order: ServeOptions, gateway: Gateway) -> Admission:
    def refused(why: str) -> None:
        gateway.metrics.refusals.add(1, why)

    certificates = order.client_ca is not None
    if order.is_open:
        return Admission(anybody="local", refused=refused)
    tokens = order.tokens
    if tokens is None and (order.signed or certificates):
        return Admission(signed=order.signed, certificates=certificates, refused=refused)
    if tokens is None:
        tokens = order.state / "tokens.json"
        if not tokens.exists():
            introduce_ourselves(order.state, tokens)
    return Admission(TokenFile(tokens), order.signed, certificates=certificates, refused=refused)


def introduce_ourselves(state: Path, tokens: Path) -> None:
    """The first start makes a token for whoever runs the gateway, where only they can read it."""
    token = add_token(tokens, "local", "local", ("use", "admin"))
    fd = os.open(state / directories.LOCAL_TOKEN, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(token)


def _tls(order: ServeOptions) -> ssl.SSLContext | None:
    if order.tls is None:
        if order.client_ca:
            raise Error("--client-ca takes --tls CERT KEY, too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(*order.tls)
        if order.client_ca:
            context.load_verify_locations(order.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if order.tokens or order.signed else ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise Error(f"the certificate or its key cannot be used: {exc}") from None
    return context


def _reload_on_hangup(context: ssl.SSLContext | None, files: tuple[str, str] | None) -> None:
    """SIGHUP reads the certificate again, for new connections; those that are open stay, with or without one."""

    def reload() -> None:
        if context is None or files is None:
            log.info("there is no certificate to read again; tokens and keys are read when they change")
            return
        try:
            reload_certificate(context, *files)
            log.info("the certificate was read again")
        except OSError as exc:
            log.error("the new certificate cannot be used: %s", exc)

    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def _names(order: ServeOptions, port: int) -> set[str]:
    """What the server may be called: its own address, this machine if it is only there, and what it was told."""
    shown = f"[{order.host}]" if ":" in order.host else order.host
    own = local_names(order.host, port) if is_loopback(order.host) else {f"{shown}:{port}"}
    return own | {name.lower() for name in order.names}


class JsonLines(logging.Formatter):
    """A log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # in ASCII: what a peer said is in it, and a terminal may show it
