"""`dragoman connect URL`: a remote agent for any editor, over stdin and stdout."""

import argparse

from ..complaint import UNREACHABLE, complain
from ..values import Commands, seconds
from .token import HELP, headers_for

EXITS = "exit codes: 0 done, 1 the server cannot be reached, 64 wrong usage"


def add_to(commands: Commands) -> None:
    told = "connect an editor to a remote agent, over stdin and stdout"
    connect = commands.add_parser("connect", help=told, epilog=EXITS)
    connect.add_argument("url", metavar="URL", help="address of the agent, such as wss://example.com/acp")
    connect.add_argument("--token-file", metavar="FILE", help=HELP)
    connect.add_argument(
        "--cwd", metavar="DIR", help="directory of sessions on the server (default: what the editor asks for)"
    )
    connect.add_argument(
        "--patience",
        type=seconds,
        metavar="SECONDS",
        help="how long requests wait for an unreachable gateway before they fail (default: 60)",
    )
    connect.set_defaults(command=_connect)


def _connect(arguments: argparse.Namespace) -> int:
    from ...agent.serving import serve
    from ...gateway.attachment import attached
    from ...gateway.returning import PATIENCE
    from .logs import log_to_stderr

    log_to_stderr()
    headers_for(arguments.url, arguments.token_file)  # an unreadable file is reported at once
    unreachable: list[str] = []
    serve(
        attached(
            arguments.url,
            headers=lambda: headers_for(arguments.url, arguments.token_file),
            cwd=arguments.cwd,
            patience=arguments.patience or PATIENCE,
            on_unreachable=unreachable.append,
        )
    )
    return complain(unreachable[0], UNREACHABLE) if unreachable else 0
