"""`dragoman`, or `dragoman tui`: conversations with agents at a terminal."""

import argparse
import sys
from typing import TYPE_CHECKING

from ..agent_options import add_agent_options
from ..complaint import complain
from ..hosting.token import HELP
from ..translate import add_dialect
from ..values import Commands

if TYPE_CHECKING:
    from ...ui.driving.driver import DriveOptions

INSTALL = "pip install 'dragoman[tui]'"
THEMES = ("terminal", "dragoman", "dragoman-dark", "dragoman-light")


def add_to(commands: Commands) -> None:
    tui = commands.add_parser("tui", help="talk to agents on a screen of the terminal")
    add = tui.add_argument
    add_agent_options(tui, "talk to")
    which = tui.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="continue an earlier session")
    told = "continue where you left: the tabs of this directory, or with --agent its latest session"
    which.add_argument("--continue", action="store_true", dest="latest", help=told)
    add("--theme", choices=THEMES, metavar="THEME", help=f"colours: {', '.join(THEMES)} (default: terminal)")
    add("--token-file", metavar="FILE", help=HELP)
    add_dialect(tui, "--dialect", "agent")
    tui.set_defaults(command=run_tui)


def is_installed() -> bool:
    """Whether the library that draws the screen is installed."""
    import importlib.util

    return importlib.util.find_spec("textual") is not None


def run_tui(arguments: argparse.Namespace) -> int:
    """Show the screen until the user leaves."""
    import os

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return complain("the screen needs a terminal; for one turn without it, use dragoman run PROMPT")
    if not is_installed():
        return complain(f"the screen is not installed; to install it: {INSTALL}")
    if not os.path.isdir(arguments.cwd):
        return complain(f"--cwd: there is no directory {arguments.cwd!r}")
    options = _options(arguments)
    if isinstance(options, str):
        return complain(options)
    from ...host.processes import find_agent
    from ...ui.tui.program import run
    from ..run import with_token

    is_named = arguments.agent is not None
    run(options, is_agent_named=is_named, theme=arguments.theme, find=lambda name: with_token(find_agent(name)))
    return 0


def _options(arguments: argparse.Namespace) -> "DriveOptions | str":
    import os

    from ...ui.driving.driver import DriveOptions
    from ..run import chosen_agent

    agent = chosen_agent(arguments)
    if isinstance(agent, str):
        return agent
    return DriveOptions(
        agent=agent,
        cwd=os.path.abspath(arguments.cwd),
        preset=arguments.permissions,
        session=arguments.session,
        latest=arguments.latest,
        dialect=arguments.agent_dialect,
    )
