"""`dragoman connect URL`: a remote agent for any editor, over stdin and stdout."""

import argparse
from typing import Any

from ..complaint import AGENT_FAILED, complain
from ..values import seconds


def add_to(commands: Any) -> None:
    connect = commands.add_parser("connect", help="connect an editor to a remote agent, over stdin and stdout")
    connect.add_argument("url", metavar="URL", help="wss://…, https://…, or on this machine ws://… and http://…")
    connect.add_argument(
        "--token-file",
        metavar="FILE",
        help="file that holds the token (default: DRAGOMAN_TOKEN, or the token of this machine's gateway)",
    )
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
    from ...errors import Error
    from ...gateway.attachment import attached
    from ...gateway.returning import PATIENCE
    from ...transports.remote.addresses import read_url
    from ..logs import log_to_stderr

    log_to_stderr()
    try:
        address, _ = read_url(arguments.url)
        token = _token(arguments.token_file, address.is_local)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        read_url(arguments.url, headers)
        patience = arguments.patience or PATIENCE
        serve(attached(arguments.url, headers=headers, cwd=arguments.cwd, patience=patience))
    except Error as exc:
        return complain(str(exc), AGENT_FAILED)
    return 0


def _token(file: str | None, is_local: bool) -> str:
    """The token: never an argument, which others could read."""
    import os
    from pathlib import Path

    from ...errors import Error
    from ...gateway.serving import LOCAL_TOKEN, state_directory

    if file is None and (token := os.environ.get("DRAGOMAN_TOKEN")):
        return token
    path = Path(file) if file else state_directory() / LOCAL_TOKEN
    if file is None and not (is_local and path.exists()):
        return ""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise Error(f"the token in {path} cannot be read: {exc}") from None
