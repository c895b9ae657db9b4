"""`dragoman serve`: hosts agents for remote clients, over WebSocket and HTTP, with sessions that lose nothing."""

import argparse
from typing import TYPE_CHECKING

from ..values import Commands, socket_path, uid_and_principal
from .agents import installed_agent
from .running import run_server
from .settings import add_limit, add_settings

if TYPE_CHECKING:
    from pathlib import Path

    from ...gateway.agents.upstream import Hosted
    from ...gateway.serving import ServeOptions
    from .config_file import Configuration


def add_to(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="host agents for remote clients")
    serve.add_argument(
        "--config", metavar="FILE", help="configuration file with any of these settings; flags override it"
    )
    serve.add_argument(
        "--take-over",
        action="store_true",
        help="take the socket and the sessions over from the gateway that runs in this state directory",
    )
    add_settings(serve)
    add_limit(serve)
    serve.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from ...gateway.operations.init_process import become_init
    from .config_file import configuration
    from .reread import Reread

    become_init()
    found = configuration(arguments.config, arguments)
    reread = Reread(lambda: configuration(arguments.config, arguments), found)
    reread.set_log()

    async def work() -> None:
        from ...gateway.serving import serve

        options = options_of(found)
        options.takes_over = arguments.take_over
        await serve(options, lambda url: print(url, flush=True), reread)

    return run_server(work)


def options_of(found: "Configuration") -> "ServeOptions":
    """The gateway's options for a configuration; raises an Error for impossible ones."""
    from pathlib import Path

    from ...errors import Error
    from ...gateway.access.limits import Limits
    from ...gateway.log.session_facts import Detached
    from ...gateway.operations.offline import retention_of
    from ...gateway.serving import ServeOptions, state_directory

    arguments = found.namespace()
    path = socket_path(arguments.listen)
    host, _, port = ("127.0.0.1:0" if path else arguments.listen).rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Error(f"--listen takes HOST:PORT or unix:PATH, not {arguments.listen!r}")
    state = Path(arguments.state) if arguments.state else state_directory()
    signed = None
    if arguments.jwt:
        from ...gateway.access.signed import SignedTokens

        signed = SignedTokens(*arguments.jwt)
    workspace = arguments.workspace or "."
    if "{principal}" not in workspace and not Path(workspace).is_dir():
        raise Error(f"--workspace: {workspace!r} is not a directory")
    if arguments.isolate == "full" and "{principal}" not in workspace:
        raise Error("--isolate needs a directory for each person: --workspace '/srv/work/{principal}'")
    return ServeOptions(
        agents=dict(_agent(named, arguments, state) for named in arguments.agent or ["coder"]),
        state=state,
        host=host.strip("[]"),
        port=int(port),
        path=path,
        socket_group=arguments.socket_group or "",
        socket_users=dict(map(uid_and_principal, arguments.socket_user)),
        tokens=Path(arguments.token_file) if arguments.token_file else None,
        is_open=arguments.no_auth,
        tls=tuple(arguments.tls) if arguments.tls else None,
        client_ca=arguments.client_ca,
        signed=signed,
        names=arguments.host,
        origins=arguments.origin,
        proxies=arguments.trusted_proxy,
        proxy_protocol=arguments.proxy_protocol,
        workspace=workspace,
        mcp_commands=arguments.mcp_command,
        limits=Limits(**arguments.limits),
        detached=Detached(cancel_after=arguments.detached),
        level=arguments.durability,
        drain=arguments.drain,
        retention=retention_of(arguments.keep_days, arguments.keep_sessions, arguments.keep_bytes),
    )


def _agent(named: str, arguments: argparse.Namespace, state: "Path") -> "tuple[str, Hosted]":
    """An agent by NAME=CMD or by a known name."""
    from ...errors import Error
    from ...gateway.agents.environment import environment
    from ...gateway.agents.upstream import Hosted

    name, launch = installed_agent(named)
    is_isolated = arguments.isolate == "full"
    if is_isolated and launch.url:
        raise Error(f"{name} runs elsewhere, so it cannot be isolated here")
    own_paths = [path for path in (str(state), arguments.token_file, *(arguments.tls or ())[1:]) if path]
    return name, Hosted(
        target=launch.url or launch.argv,
        env=None if launch.url else environment(launch, own_paths, arguments.pass_env),
        cwd=launch.directory,
        workspace=arguments.lend,
        preset=arguments.permissions,
        sandbox=arguments.sandbox or is_isolated,
        process_per=arguments.process_per,
        isolated=is_isolated,
        apart=arguments.isolate == "gateway" and not launch.url,
        visible=arguments.visible,
        network=arguments.network or (),
        state=str(state / "host"),
    )
