"""`dragoman setup EDITOR`: the configuration that makes an agent appear in an editor."""

import argparse
import sys

from .complaint import complain
from .values import Commands

EDITORS = ("zed", "jetbrains", "neovim", "emacs", "vscode")


def add_to(commands: Commands) -> None:
    setup = commands.add_parser("setup", help="print the configuration that adds an agent to an editor")
    setup.add_argument("editor", choices=EDITORS, metavar="EDITOR", help=", ".join(EDITORS))
    setup.add_argument("--agent", default="coder", metavar="NAME", help="name of the agent (default: coder)")
    setup.set_defaults(command=_setup)


def _setup(arguments: argparse.Namespace) -> int:
    from ..foundation.suggesting import choices
    from ..host.processes import broken_agents, known_agents
    from ..ui.editors import configuration

    if wrong := broken_agents().get(arguments.agent):
        return complain(str(wrong))
    agents = known_agents()
    if (agent := agents.get(arguments.agent)) is None:
        hint = choices(arguments.agent, agents, "see dragoman agents list")
        return complain(f"there is no agent {arguments.agent!r}; {hint}")
    if agent.url:
        return complain(f"{arguments.agent} is reached at an address, and editors start programs")
    if agent.lacks_extra:
        return complain(f"{arguments.agent} is not installed; to install it: {agent.install}")
    where, text = configuration(arguments.editor, agent)
    sys.stderr.write(f"{where}\n\n")
    print(text)
    return 0
