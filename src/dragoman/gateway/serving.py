"""`dragoman serve`: sets up a gateway from its options, and ends it in order."""

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Error
from ..foundation import directories
from ..transports.remote.unix_sockets import SCHEME, listen_at, name_of
from .access.admission import Admission, SocketUsers
from .access.budget import ClientSockets, raise_descriptor_limit
from .access.checks import Checks
from .access.guard import local_names
from .access.proxies import TrustedProxies
from .access.tokens import TokenFile, add_token
from .gateway import Gateway, running
from .log.opening import open_engine
from .operations.admin import admin_socket
from .operations.apart import OwnFiles, keep_apart
from .operations.figures import watched
from .operations.handover import Handover, Predecessor, hand_over
from .operations.leaving import leave
from .operations.log_budget import logging_within
from .operations.offline import only_one
from .operations.stopping import heed_signals
from .operations.supervision import notify, supervised
from .options import ServeOptions as ServeOptions
from .reloading import OptionsInForce, on_hangup, reload
from .web.application import Web

if TYPE_CHECKING:
    from ..transports.remote.server.server import Server

log = logging.getLogger("dragoman")

SAME = "--listen has to name it, unix:PATH or HOST:PORT"
FIRST_GIVEN = 3  # the first descriptor from systemd


class CannotListen(Error):
    """The address to listen on is in use, or does not belong to this machine."""


def state_directory() -> Path:
    """The default state directory of a gateway."""
    return directories.gateway_directory()


async def serve(
    options: ServeOptions, ready: Callable[[str], None], reread: Callable[[], ServeOptions] | None = None
) -> None:
    """Serve until told to stop; `ready` is called with the URL once clients can connect.

    SIGHUP calls `reread` for new options, which are applied as far as they need no restart.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    heed_signals(stopping.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # replaced once the options can be reread
    raise_descriptor_limit()
    async with serving(options, stopping.set, reread) as (gateway, url), logging_within(gateway), supervised():
        ready(url)
        await stopping.wait()


@asynccontextmanager
async def serving(
    options: ServeOptions, stop: Callable[[], None], reread: Callable[[], ServeOptions] | None = None
) -> AsyncIterator[tuple[Gateway, str]]:
    """A served gateway and its URL; it is drained before its clients' connections end."""
    check_exposure(options)
    proxies = TrustedProxies(options.proxies)
    tls = _tls(options)
    with predecessor(options) as before, held_state(options.state, before.lock if before else None) as held:
        gateway = await _gateway(options, takes_over=before is not None)
        try:
            web = Web(gateway, _admission(options, gateway), origins=options.origins, proxies=proxies)
        except BaseException:
            await gateway.engine.close()
            raise
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(running(gateway))
            own_files = OwnFiles(options.state, options.tokens, options.tls, options.path)
            await keep_apart(own_files, gateway.processes, gateway.workspaces)
            listener = before.listener if before else activated()
            server = await stack.enter_async_context(_listening(web, options, tls, listener, proxies))
            own = own_names(options, server.port)
            web.guard.hosts |= own | set(options.names)
            force = OptionsInForce(options, gateway, web, tls, own)
            on_hangup(lambda: reload(force, reread))
            go = functools.partial(_begin_to_leave, gateway, web, server, stop)
            handover = Handover(lambda: (server.descriptor, held.lock), go)
            hand_over_to = functools.partial(hand_over, handover)
            await stack.enter_async_context(admin_socket(gateway, options.state, stop, hand_over_to))
            await stack.enter_async_context(web.watching())
            await stack.enter_async_context(watched(gateway))
            held.keep()
            if before:
                before.tell_ready()
            try:
                yield gateway, server.url(websocket=True)
            finally:
                log.info("stopping: nothing new is taken")
                await gateway.drain(force.options.drain)


async def _gateway(options: ServeOptions, *, takes_over: bool) -> Gateway:
    return Gateway(
        await open_engine(options.engine, options.state, options.level),
        options.agents,
        limits=options.limits,
        checks=Checks(workspace=options.workspace, commands=frozenset(options.mcp_commands)),
        detached=options.detached,
        retention=options.retention,
        takes_over=takes_over,
    )


@asynccontextmanager
async def _listening(
    web: Web,
    options: ServeOptions,
    tls: ssl.SSLContext | None,
    listener: socket.socket | None,
    proxies: TrustedProxies,
) -> AsyncIterator["Server"]:
    """Listen and serve; raises an Error if the address cannot be used."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            from ..transports.remote.server.server import listening

            if options.path and listener is None:
                listener = listen_at(options.path, options.socket_group)
            if listener and options.path != name_of(listener):
                raise Error(f"the socket that is handed over is {shown_name(listener)}: {SAME}")
            server = await stack.enter_async_context(
                listening(
                    web,
                    options.host,
                    options.port,
                    tls=tls,
                    listener=listener,
                    gate=ClientSockets(web.gateway.budget),
                    proxied=proxies.trusts if options.proxy_protocol else nobody,
                )
            )
        except ModuleNotFoundError:
            raise Error("`dragoman serve` needs the gateway extra: pip install 'dragoman[gateway]'") from None
        except OSError as exc:
            where = options.path or f"{options.host}:{options.port}"
            raise CannotListen(f"cannot listen on {where}: {exc.strerror or exc}") from None
        yield server


def shown_name(listener: socket.socket) -> str:
    """The address of a listening socket, in the form of `--listen`."""
    if path := name_of(listener):
        return f"{SCHEME}:{path}"
    host, port, *_ = listener.getsockname()
    return f"{host}:{port}"


def _begin_to_leave(gateway: Gateway, web: Web, server: "Server", stop: Callable[[], None]) -> None:
    """Leave new connections to the process that has taken over, and end when no client is left."""
    notify("STOPPING=1")

    async def go() -> None:
        await server.stop_accepting()
        await leave(gateway, web.send_away_quiet)
        stop()

    gateway.start(go())


def nobody(_: str) -> bool:
    return False


def check_exposure(options: ServeOptions) -> None:
    """Refuse to listen for remote clients without credentials or encryption."""
    if options.proxy_protocol and not options.proxies:
        raise Error("--proxy-protocol also needs --trusted-proxy: only a trusted proxy may name a client's address")
    if options.proxy_protocol and options.tls:
        raise Error("--proxy-protocol and --tls exclude each other: configure the certificate in the proxy")
    if options.path and (options.tls or options.proxy_protocol):
        raise Error("--tls and --proxy-protocol are for addresses, and --listen names a Unix socket")
    if not options.path and (options.socket_group or options.socket_users):
        raise Error("--socket-group and --socket-user need --listen unix:PATH")
    if options.path or is_loopback(options.host):
        return
    if options.is_open:
        raise Error("--no-auth is only for this machine: listen on 127.0.0.1, or use tokens")
    if options.tls is None:
        raise Error(
            f"listening on {options.host} needs --tls CERT KEY; behind a proxy with TLS, listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HeldState:
    """A directory that no other gateway uses."""

    def __init__(self, lock: int, *, is_kept: bool) -> None:
        self.lock, self.is_kept = lock, is_kept

    def keep(self) -> None:
        """Keep the new files in it from now on, whatever fails."""
        self.is_kept = True


@contextlib.contextmanager
def predecessor(options: ServeOptions) -> Iterator[Predecessor | None]:
    """The process to take over from, if requested; until it is told that we serve, it continues as before."""
    if not options.takes_over:
        yield None
        return
    before = Predecessor(options.state)
    try:
        yield before
    finally:
        before.close()


def activated(environ: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening socket from systemd (`LISTEN_FDS`), with which no client is refused during a restart."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or environ.get("LISTEN_FDS") != "1":
        return None
    return socket.socket(fileno=os.dup(FIRST_GIVEN))


@contextlib.contextmanager
def held_state(directory: Path, lock: int | None = None) -> Iterator["HeldState"]:
    """The locked directory of a gateway, created if missing; a failure before `keep` leaves nothing new in it.

    `lock` is the lock that another process shares.
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = set(os.listdir(directory))
    with only_one(directory, lock) as own:
        held = HeldState(own, is_kept=lock is not None)
        try:
            yield held
        except BaseException:
            if not held.is_kept:
                for path in (directory / name for name in set(os.listdir(directory)) - before):
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                for path in made:
                    path.rmdir()
            raise


def _admission(options: ServeOptions, gateway: Gateway) -> Admission:
    def refused(why: str) -> None:
        gateway.metrics.refusals.add(1, why)

    certificates = options.client_ca is not None
    users = SocketUsers(options.socket_users) if options.path else None
    if options.is_open:
        return Admission(anybody="local", refused=refused)
    tokens = options.tokens
    if tokens is None and (options.signed or certificates):
        return Admission(signed=options.signed, certificates=certificates, users=users, refused=refused)
    if tokens is None:
        tokens = options.state / "tokens.json"
        if not tokens.exists():
            introduce_ourselves(options.state, tokens)
    return Admission(TokenFile(tokens), options.signed, certificates=certificates, users=users, refused=refused)


def introduce_ourselves(state: Path, tokens: Path) -> None:
    """Create a token for the operator at the first start, in a file that only they can read."""
    token = add_token(tokens, "local", "local", ("use", "admin"))
    fd = os.open(state / directories.LOCAL_TOKEN, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(token)


def _tls(options: ServeOptions) -> ssl.SSLContext | None:
    if options.tls is None:
        if options.client_ca:
            raise Error("--client-ca also needs --tls CERT KEY")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(*options.tls)
        if options.client_ca:
            context.load_verify_locations(options.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if options.tokens or options.signed else ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise Error(f"the certificate or its key cannot be used: {exc}") from None
    return context


def own_names(options: ServeOptions, port: int) -> set[str]:
    """The host names of the server from its address: the address itself, and names of this machine if local."""
    if options.path:
        return {"localhost"}
    shown = f"[{options.host}]" if ":" in options.host else options.host
    return local_names(options.host, port) if is_loopback(options.host) else {f"{shown}:{port}"}
