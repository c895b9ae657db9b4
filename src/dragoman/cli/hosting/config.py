"""`dragoman gateway config`: checks and shows a configuration before a gateway starts with it."""

import argparse
import sys
from collections.abc import Callable

from ..complaint import complain
from ..values import Commands
from .settings import add_limit, add_settings

WRONG = 1


def add_to(actions: Commands, complaining: Callable[..., Callable[[argparse.Namespace], int]]) -> None:
    config = actions.add_parser("config", help="check and show the configuration of a gateway")
    verbs = config.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = verbs.add_parser("check", help="check a configuration file; exit with 1 if something in it is wrong")
    check.add_argument("file", metavar="FILE", help="configuration file, such as gateway.toml")
    check.set_defaults(command=complaining(_check))
    show = verbs.add_parser(
        "show",
        help="show every setting and where it comes from",
        description="Show every setting and where it comes from, as a configuration file. Takes the options of "
        "dragoman serve, which override the file.",
    )
    show.add_argument("--config", metavar="FILE", help="configuration file")
    add_settings(show)
    add_limit(show)
    show.set_defaults(command=complaining(_show))


def _check(arguments: argparse.Namespace) -> int:
    from ...gateway.serving import check_exposure
    from .config_file import DEFAULT, ConfigError, configuration
    from .serve import options_of

    try:
        found = configuration(arguments.file, argparse.Namespace())
    except ConfigError as exc:
        for problem in exc.problems:
            complain(problem)
        return WRONG
    check_exposure(options_of(found))
    said = sum(origin != DEFAULT for origin in found.origins.values())
    print(f"{arguments.file}: good, {said} settings")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from .config_file import configuration

    sys.stdout.writelines(f"{line}\n" for line in configuration(arguments.config, arguments).lines())
    return 0
