"""`dragoman cursor`: agents in Cursor's chat, as models named acp:<agent>."""

import argparse
from typing import Any

from ..values import PRESETS, Commands, origin, port
from .agents import installed_agent
from .running import run_server


def add_to(commands: Commands) -> None:
    cursor = commands.add_parser("cursor", help="offer agents to Cursor's chat, over HTTP on this machine")
    add = cursor.add_argument
    add(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=CMD",
        help="agent to offer; may be repeated (default: every installed agent that has a name)",
    )
    add("--port", type=port, default=37842, metavar="N", help="port to listen on (default: 37842)")
    add("--workspace", metavar="DIR", help="directory that sessions are confined to (default: .)")
    add(
        "--permissions",
        choices=PRESETS,
        default="ask",
        help="operations that agents may do without asking (default: ask)",
    )
    add(
        "--origin",
        action="append",
        default=[],
        type=origin,
        metavar="ORIGIN",
        help="origin of a further page that may connect, besides Cursor's own window",
    )
    add("--token-file", metavar="FILE", help="file that holds the tokens (see: dragoman gateway tokens)")
    add("--state", metavar="DIR", help="directory for sessions and tokens (default: in XDG_STATE_HOME)")
    cursor.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from ...bridges.cursor.serving import CursorBridge, serve_cursor
    from .logs import log_to_stderr

    def ready(bridge: CursorBridge) -> None:
        print(bridge.url, flush=True)
        if bridge.token_file:
            print(f"token: {bridge.token_file}", flush=True)

    log_to_stderr()
    return run_server(lambda: serve_cursor(_options(arguments), ready))


def _options(arguments: argparse.Namespace) -> Any:
    from pathlib import Path

    from ...bridges.cursor.serving import PAGE, CursorOptions, cursor_directory
    from ...errors import Error

    workspace = arguments.workspace or "."
    if not Path(workspace).is_dir():
        raise Error(f"--workspace: {workspace!r} is not a directory")
    return CursorOptions(
        agents=_agents(arguments.agent),
        state=Path(arguments.state) if arguments.state else cursor_directory(),
        port=arguments.port,
        tokens=Path(arguments.token_file) if arguments.token_file else None,
        origins=[PAGE, *arguments.origin],
        workspace=workspace,
        preset=arguments.permissions,
    )


def _agents(named: list[str]) -> Any:
    from ...host.processes import known_agents

    if named:
        return dict(map(installed_agent, named))
    return {name: launch for name, launch in known_agents().items() if launch.is_installed}
