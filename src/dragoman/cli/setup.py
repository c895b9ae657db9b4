"""`dragoman setup EDITOR`: prints the configuration that adds an agent to an editor."""

import argparse
import sys

from .agents import named_agent
from .complaint import complain
from .values import Commands

EDITORS = ("zed", "jetbrains", "neovim", "emacs", "vscode")


def add_to(commands: Commands) -> None:
    setup = commands.add_parser("setup", help="print the configuration that adds an agent to an editor")
    setup.add_argument("editor", choices=EDITORS, metavar="EDITOR", help=", ".join(EDITORS))
    setup.add_argument("--agent", default="coder", metavar="NAME", help="name of the agent (default: coder)")
    setup.set_defaults(command=_setup)


def _setup(arguments: argparse.Namespace) -> int:
    from ..errors import Error
    from ..ui.editors import configuration

    try:
        agent = named_agent(arguments.agent)
    except Error as exc:
        return complain(str(exc))
    if agent.url:
        return complain(f"{arguments.agent} is reached at an address, and editors start programs")
    if agent.lacks_extra:
        return complain(f"{arguments.agent} is not installed; to install it: {agent.install}")
    where, text = configuration(arguments.editor, agent)
    sys.stderr.write(f"{where}\n\n")
    print(text)
    return 0
