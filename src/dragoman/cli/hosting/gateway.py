"""`dragoman gateway …`: inspects a gateway on this machine and manages its users."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..complaint import complain
from ..values import Commands
from .config import add_to as add_config
from .gateway_log import add_to as add_log_actions

if TYPE_CHECKING:
    from pathlib import Path

FAILED = 1


def add_to(commands: Commands) -> None:
    gateway = commands.add_parser("gateway", help="manage a gateway: sessions, tokens, metrics, backups")
    actions = gateway.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Callable[[argparse.Namespace], int | None], words: str) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=words)
        parser.add_argument("--state", metavar="DIR", help="state directory of the gateway")
        parser.set_defaults(command=_complaining(run))
        return parser

    action("sessions", _admin_command("sessions"), "list open sessions as JSON, one object per line")
    attach = action("attach", _admin_command("attach"), "follow the updates of a session, one per line")
    attach.add_argument("session", metavar="ID", help="id of the session")
    attach.add_argument(
        "--after", type=int, default=0, metavar="N", help="number of the update to start after (default: 0)"
    )
    action("metrics", _admin_command("metrics"), "print metrics in the Prometheus format")
    action("drain", _admin_command("drain"), "let running turns finish, accept nothing new, and stop the gateway")
    _add_agents(actions)
    add_log_actions(lambda name, run, words: action(name, _with_state(run), words))
    _add_tokens(actions)
    add_config(actions, _complaining)


def _add_agents(actions: Commands) -> None:
    agents = actions.add_parser("agents", help="list, restart and stop the agents that the gateway hosts")
    verbs = agents.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, do, words in (
        ("list", "agents", "list agents and their processes as JSON, one object per line"),
        ("restart", "restart", "end an agent's processes; the next prompt starts a new one"),
        ("stop", "stop", "end an agent's processes and start none until it is restarted"),
    ):
        verb = verbs.add_parser(name, help=words)
        verb.add_argument("--state", metavar="DIR", help="state directory of the gateway")
        if name != "list":
            verb.add_argument("agent", metavar="NAME", help="name of the agent; its running turns are interrupted")
        if name == "restart":
            verb.add_argument("--principal", metavar="WHO", help="end only processes of this principal")
        verb.set_defaults(command=_complaining(_admin_command(do)))


def _with_state(run: "Callable[[argparse.Namespace, Path], int]") -> Callable[[argparse.Namespace], int]:
    return lambda arguments: run(arguments, _state(arguments))


def _add_tokens(actions: Commands) -> None:
    tokens = actions.add_parser("tokens", help="manage the tokens that give access to the gateway")
    verbs = tokens.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, run, words in (
        ("add", _add, "create a token and print it, once; only its hash is stored"),
        ("list", _list, "list tokens"),
        ("revoke", _revoke, "revoke a token; takes effect within a second"),
    ):
        verb = verbs.add_parser(name, help=words)
        verb.add_argument("--state", metavar="DIR", help="state directory of the gateway")
        verb.add_argument("--token-file", metavar="FILE", help="file that holds the tokens")
        if name != "list":
            verb.add_argument("name", metavar="NAME", help="name of the token")
        if name == "add":
            verb.add_argument(
                "--principal", metavar="WHO", help="principal that the token stands for (default: its name)"
            )
            verb.add_argument("--admin", action="store_true", help="also give access to metrics")
            verb.add_argument("--days", type=float, metavar="N", help="days until it expires (default: never)")
        verb.set_defaults(command=_complaining(run))


def _complaining(run: Callable[[argparse.Namespace], int | None]) -> Callable[[argparse.Namespace], int]:
    def command(arguments: argparse.Namespace) -> int:
        from ...errors import Error

        try:
            return run(arguments) or 0
        except Error as exc:
            return complain(str(exc), FAILED)

    return command


def _admin_command(do: str) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        from ...gateway.operations.admin import AdminRequest, ask_admin
        from ...ui.output import install

        stdout, _ = install()
        request = AdminRequest(
            do,
            session=getattr(arguments, "session", ""),
            agent=getattr(arguments, "agent", ""),
            after=getattr(arguments, "after", 0),
            principal=getattr(arguments, "principal", None),
        )
        for line in ask_admin(_state(arguments), request):
            stdout.write_bytes(line)
            stdout.flush()

    return run


def _state(arguments: argparse.Namespace) -> "Path":
    from pathlib import Path

    from ...gateway.serving import state_directory

    return Path(arguments.state) if arguments.state else state_directory()


def _file(arguments: argparse.Namespace) -> "str | Path":
    named: str | None = arguments.token_file
    return named or _state(arguments) / "tokens.json"


def _add(arguments: argparse.Namespace) -> None:
    from ...gateway.access.tokens import Scope, add_token

    expires = time.time() + arguments.days * 86400 if arguments.days else None
    scopes: tuple[Scope, ...] = ("use", "admin") if arguments.admin else ("use",)
    print(add_token(_file(arguments), arguments.name, arguments.principal or arguments.name, scopes, expires))


def _list(arguments: argparse.Namespace) -> None:
    from ...gateway.access.tokens import TokenFile

    for grant in TokenFile(_file(arguments)).grants:
        until = time.strftime("%Y-%m-%d", time.gmtime(grant.expires)) if grant.expires else "for ever"
        print(f"{grant.name}\t{grant.principal}\t{','.join(grant.scopes)}\t{until}")


def _revoke(arguments: argparse.Namespace) -> None:
    from ...gateway.access.tokens import revoke_token

    revoke_token(_file(arguments), arguments.name)
