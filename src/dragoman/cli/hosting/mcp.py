"""`dragoman mcp`: an agent or language servers for MCP hosts, over stdin and stdout or over HTTP."""

import argparse

from ..complaint import UNREACHABLE, complain
from ..values import PRESETS, Commands, port


def add_to(commands: Commands) -> None:
    mcp = commands.add_parser("mcp", help="offer an agent or language servers to MCP hosts, as tools")
    add = mcp.add_argument
    offered = mcp.add_mutually_exclusive_group()
    told = "agent to offer (default: coder)"
    offered.add_argument("--agent", default="coder", metavar="NAME|CMD|URL", help=told)
    told = "offer the installed language servers instead of an agent"
    offered.add_argument("--lsp", action="store_true", help=told)
    way = mcp.add_mutually_exclusive_group()
    way.add_argument("--stdio", action="store_true", help="serve one host over stdin and stdout (default)")
    way.add_argument("--http", action="store_true", help="serve hosts over HTTP on this machine, with a token")
    add("--port", type=port, default=8766, metavar="N", help="port to listen on with --http (default: 8766)")
    add("--workspace", default=".", metavar="DIR", help="directory that sessions are confined to (default: .)")
    add(
        "--permissions",
        choices=PRESETS,
        default="ask",
        help="operations that are done without asking (default: ask)",
    )
    add("--state", metavar="DIR", help="directory for the token of --http (default: in XDG_STATE_HOME)")
    mcp.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import os
    from pathlib import Path

    from ...errors import Error, MissingExtra
    from ...foundation.directories import LOCAL_TOKEN, state_directory
    from ...gateway.serving import CannotListen
    from ...host.processes import find_agent
    from .logs import log_to_stderr

    if not os.path.isdir(arguments.workspace):
        return complain(f"--workspace: {arguments.workspace!r} is not a directory")
    log_to_stderr()
    try:
        agent = None if arguments.lsp else find_agent(arguments.agent)
        try:
            from ...bridges.mcp.serving import serve_http, serve_stdio
        except ModuleNotFoundError:
            raise MissingExtra("`dragoman mcp` needs the mcp extra: pip install 'dragoman[mcp]'") from None
        if not arguments.http:
            asyncio.run(serve_stdio(agent, arguments.workspace, arguments.permissions))
            return 0
        state = Path(arguments.state) if arguments.state else state_directory() / "mcp"

        def ready(url: str) -> None:
            print(url, flush=True)
            print(f"token: {state / LOCAL_TOKEN}", flush=True)

        asyncio.run(serve_http(agent, arguments.workspace, arguments.permissions, arguments.port, state, ready))
    except CannotListen as exc:
        return complain(str(exc), UNREACHABLE)
    except Error as exc:
        return complain(str(exc))
    return 0
