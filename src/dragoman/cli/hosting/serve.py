"""`dragoman serve`: agents for others, over WebSocket and HTTP, with sessions that nothing is lost of."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..values import PRESETS, Commands, count, delay, host_name, hosts, origin, seconds, sha256
from .agents import installed_agent
from .gateway_log import add_limits, limits_of
from .running import run_server

if TYPE_CHECKING:
    from pathlib import Path

    from ...gateway.agents.upstream import Hosted
    from ...gateway.serving import ServeOptions


def add_to(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="host agents for remote clients")
    add = serve.add_argument
    add(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=CMD",
        help="agent to host; may be repeated (default: coder)",
    )
    add(
        "--listen",
        default="127.0.0.1:8765",
        metavar="HOST:PORT",
        help="address to listen on (default: 127.0.0.1:8765)",
    )
    add("--state", metavar="DIR", help="directory for sessions, tokens and logs (default: in XDG_STATE_HOME)")
    _add_access(add)
    _add_workspace(add)
    _add_sessions(add)
    add_limits(serve)
    _choice(add, "--log", ("text", "json"), "format of the log on stderr")
    serve.set_defaults(command=_serve)


def _choice(add: Callable[..., object], name: str, choices: Sequence[str], help: str) -> None:
    """An option with one of several words; the first is the default."""
    add(name, choices=choices, default=choices[0], help=f"{help} (default: {choices[0]})")


def _add_access(add: Callable[..., object]) -> None:
    """Who may connect, and by which names and addresses."""
    add("--token-file", metavar="FILE", help="file that holds the tokens (see: dragoman gateway tokens)")
    add("--no-auth", action="store_true", help="require no token; allowed on loopback addresses only")
    add(
        "--tls",
        nargs=2,
        metavar=("CERT", "KEY"),
        help="serve over TLS; required unless the address is loopback",
    )
    add("--client-ca", metavar="FILE", help="accept clients with a certificate of this authority")
    add("--jwt", nargs=3, metavar=("ISSUER", "AUDIENCE", "JWKS"), help="accept tokens signed by this issuer")
    add(
        "--host",
        action="append",
        default=[],
        type=host_name,
        metavar="NAME",
        help="host name and port that clients use, where it differs from --listen",
    )
    add(
        "--origin",
        action="append",
        default=[],
        type=origin,
        metavar="ORIGIN",
        help="origin of a web page that may connect",
    )


def _add_sessions(add: Callable[..., object]) -> None:
    """What sessions may take, and how long they last."""
    add(
        "--process-per",
        choices=("principal", "session"),
        default="principal",
        help="one agent process for all sessions of a principal (default), or one for each session",
    )
    add(
        "--mcp-command",
        action="append",
        default=[],
        type=sha256,
        metavar="HASH",
        help="hash of an MCP server's command, arguments and environment that clients may start",
    )
    add(
        "--max-sessions",
        type=count,
        default=100,
        metavar="N",
        help="open sessions a principal may have (default: 100)",
    )
    add(
        "--max-turn",
        type=seconds,
        default=3600.0,
        metavar="SECONDS",
        help="longest time a turn may take (default: 3600)",
    )
    add(
        "--detached",
        type=delay,
        metavar="SECONDS",
        help="cancel a turn that nobody has watched for this long (default: never)",
    )
    add(
        "--drain",
        type=delay,
        default=3.0,
        metavar="SECONDS",
        help="how long running turns may continue after the gateway is told to stop (default: 3)",
    )
    _choice(add, "--durability", ("power", "process"), "what a record survives: a power cut, or the process's end")


def _add_workspace(add: Callable[..., object]) -> None:
    """What agents work on, and behind which walls."""
    add(
        "--workspace",
        metavar="DIR",
        help="directory that sessions are confined to; may contain {principal} (default: .)",
    )
    _choice(add, "--lend", ("host", "client"), "whose files and terminals agents use")
    _choice(add, "--permissions", PRESETS, "what agents may do without asking")
    add(
        "--sandbox",
        action="store_true",
        help="run the agents' commands in a sandbox; refuse them where there is none",
    )
    add("--isolate", action="store_true", help="run each agent and its commands in a sandbox around its workspace")
    add("--visible", action="append", default=[], metavar="PATH", help="further path that isolated agents may read")
    add(
        "--network",
        type=hosts,
        default=(),
        metavar="HOST,...",
        help="hosts that isolated agents may connect to (default: none)",
    )


def _serve(arguments: argparse.Namespace) -> int:
    from ...gateway.serving import JsonLines, serve
    from .logs import log_to_stderr

    log_to_stderr(JsonLines() if arguments.log == "json" else None)
    return run_server(lambda: serve(_options(arguments), lambda url: print(url, flush=True)))


def _options(arguments: argparse.Namespace) -> "ServeOptions":
    from pathlib import Path

    from ...errors import Error
    from ...gateway.access.quotas import Quotas
    from ...gateway.log.session_facts import Detached
    from ...gateway.serving import ServeOptions, state_directory

    host, _, port = arguments.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Error(f"--listen takes HOST:PORT, not {arguments.listen!r}")
    state = Path(arguments.state) if arguments.state else state_directory()
    signed = None
    if arguments.jwt:
        from ...gateway.access.signed import SignedTokens

        signed = SignedTokens(*arguments.jwt)
    workspace = arguments.workspace or "."
    if "{principal}" not in workspace and not Path(workspace).is_dir():
        raise Error(f"--workspace: {workspace!r} is not a directory")
    if arguments.isolate and "{principal}" not in workspace:
        raise Error("--isolate needs a directory for each person: --workspace '/srv/work/{principal}'")
    return ServeOptions(
        agents=dict(_agent(named, arguments, state) for named in arguments.agent or ["coder"]),
        state=state,
        host=host.strip("[]"),
        port=int(port),
        tokens=Path(arguments.token_file) if arguments.token_file else None,
        is_open=arguments.no_auth,
        tls=tuple(arguments.tls) if arguments.tls else None,
        client_ca=arguments.client_ca,
        signed=signed,
        names=arguments.host,
        origins=arguments.origin,
        workspace=workspace,
        mcp_commands=arguments.mcp_command,
        limits=Quotas(sessions=arguments.max_sessions, turn_seconds=arguments.max_turn),
        detached=Detached(cancel_after=arguments.detached),
        level=arguments.durability,
        drain=arguments.drain,
        retention=limits_of(arguments),
    )


def _agent(named: str, arguments: argparse.Namespace, state: "Path") -> "tuple[str, Hosted]":
    """An agent by NAME=CMD, or by a name that is known."""
    from ...errors import Error
    from ...gateway.agents.upstream import Hosted
    from ...gateway.serving import environment

    name, launch = installed_agent(named)
    if arguments.isolate and launch.url:
        raise Error(f"{name} runs elsewhere, so it cannot be isolated here")
    return name, Hosted(
        target=launch.url or launch.argv,
        env=None if launch.url else environment(launch),
        cwd=launch.directory,
        workspace=arguments.lend,
        preset=arguments.permissions,
        sandbox=arguments.sandbox or arguments.isolate,
        process_per=arguments.process_per,
        isolated=arguments.isolate,
        visible=arguments.visible,
        network=arguments.network,
        state=str(state / "host"),
    )
