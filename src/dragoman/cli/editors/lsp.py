"""`dragoman lsp`: an agent for editors that speak LSP, over stdin and stdout."""

import argparse

from ..complaint import complain
from ..values import PRESETS, Commands


def add_to(commands: Commands) -> None:
    lsp = commands.add_parser("lsp", help="offer an agent to editors that speak LSP, as a language server")
    add = lsp.add_argument
    add("--agent", default="coder", metavar="NAME|CMD|URL", help="agent to offer (default: coder)")
    add("--permissions", choices=PRESETS, default="ask", help="what the agent may do without asking (default: ask)")
    add("--no-review", action="store_true", help="publish no diagnostics of the reviewer")
    lsp.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio

    from ...errors import Error, MissingExtra
    from ...host.processes import find_agent
    from ..hosting.logs import log_to_stderr

    log_to_stderr()
    try:
        agent = find_agent(arguments.agent)
        try:
            from ...bridges.lsp.server import serve_editor
        except ModuleNotFoundError:
            raise MissingExtra("`dragoman lsp` needs the lsp extra: pip install 'dragoman[lsp]'") from None
        asyncio.run(serve_editor(agent, arguments.permissions, reviews=not arguments.no_review))
    except Error as exc:
        return complain(str(exc))
    return 0
