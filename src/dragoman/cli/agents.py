"""`dragoman agents list|show NAME`: the agents that have a name."""

import argparse
import sys
from typing import TYPE_CHECKING

from .complaint import complain
from .values import Commands

if TYPE_CHECKING:
    from ..host.processes import Launch

FETCHERS = ("npx", "uvx")  # if installed, they download the agent with its first start


def add_to(commands: Commands) -> None:
    agents = commands.add_parser("agents", help="list the agents that can be started by name, or show one")
    verbs = agents.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", help="list all agents and say which are installed")
    listing.set_defaults(command=_list)
    show = verbs.add_parser("show", help="show how an agent is started")
    show.add_argument("name", metavar="NAME", help="name of an agent (see: dragoman agents list)")
    show.set_defaults(command=_show)


def _list(arguments: argparse.Namespace) -> int:
    from ..host.audit import Redactor
    from ..host.processes import broken_agents, known_agents
    from ..ui.layout import in_columns
    from ..ui.legible import one_line
    from ..ui.style import Style, size_of

    for wrong in broken_agents().values():
        complain(str(wrong))
    agents = known_agents()
    redactor = Redactor()
    rows, colours = [], []
    for name, agent in agents.items():
        state, colour = _state(agent)
        way = f"to install it: {agent.install}" if agent.lacks_extra else redactor.text(agent.described())
        rows.append([one_line(name), state, one_line(agent.title), one_line(way)])
        colours.append(["bold", colour, "", "dim"])
    columns = size_of(sys.stdout)[0]
    for line in in_columns(rows, colours, Style.of(sys.stdout), columns):
        print(line)
    return 0


def _state(agent: "Launch") -> tuple[str, str]:
    """Whether an agent can be started here, and the colour for that."""
    if not agent.is_installed:
        return "not found", "dim"
    return (f"by {agent.command}", "yellow") if agent.command in FETCHERS else ("installed", "green")


def named_agent(name: str) -> "Launch":
    """The agent with a name; raises `Error` if there is none or its entry cannot be used."""
    from ..errors import Error
    from ..foundation.suggesting import choices
    from ..host.processes import broken_agents, known_agents

    if wrong := broken_agents().get(name):
        raise wrong
    agents = known_agents()
    if (agent := agents.get(name)) is None:
        raise Error(f"there is no agent {name!r}; {choices(name, agents, 'see dragoman agents list')}")
    return agent


def _show(arguments: argparse.Namespace) -> int:
    from ..errors import Error
    from ..foundation.directories import config_directory
    from ..host.audit import Redactor
    from ..ui.legible import one_line

    try:
        agent = named_agent(arguments.name)
    except Error as exc:
        return complain(str(exc))
    facts = {
        "name": arguments.name,
        "title": agent.title,
        "url" if agent.url else "command": Redactor().text(agent.described()),
        "variables": ", ".join(agent.env),  # only their names, because a value may be secret
        "headers": ", ".join(agent.headers),
        "installed": _state(agent)[0],
        "install": "" if agent.is_installed else agent.install,
        "login": agent.login,
        "to change": f"[{arguments.name}] in {config_directory() / 'agents.toml'}",
    }
    for name, value in facts.items():
        if value:
            print(f"{name:<10} {one_line(value)}")
    return 0
