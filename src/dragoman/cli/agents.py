"""`dragoman agents list|show NAME`: the agents that have a name."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from .complaint import complain

if TYPE_CHECKING:
    from ..host.processes import Launch

FETCHERS = ("npx", "uvx")  # there, they fetch the agent when it is first started


def add_to(commands: Any) -> None:
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
    from ..ui.legible import one_line
    from ..ui.style import Style

    for wrong in broken_agents().values():
        complain(str(wrong))
    agents = known_agents()
    redactor = Redactor()
    style = Style.of(sys.stdout)
    columns = [(one_line(name), one_line(agent.title)) for name, agent in agents.items()]
    names, titles = (max(len(column) for column in side) for side in zip(*columns, strict=True))
    for (name, title), agent in zip(columns, agents.values(), strict=True):
        state, colour = _state(agent)
        way = f"to install it: {agent.install}" if agent.lacks_extra else redactor.text(agent.described())
        words = f"{title.ljust(titles)}  {one_line(way)}"
        print(f"{style(name.ljust(names), 'bold')}  {style(state.ljust(11), colour)}  {words}")
    return 0


def _state(agent: "Launch") -> tuple[str, str]:
    """Whether an agent can be started here, and the colour to say it in."""
    if not agent.is_installed:
        return "not found", "dim"
    return (f"by {agent.command}", "yellow") if agent.command in FETCHERS else ("installed", "green")


def _show(arguments: argparse.Namespace) -> int:
    from ..foundation.directories import config_directory
    from ..host.audit import Redactor
    from ..host.processes import broken_agents, known_agents
    from ..ui.legible import one_line

    if wrong := broken_agents().get(arguments.name):
        return complain(str(wrong))
    agents = known_agents()
    if (agent := agents.get(arguments.name)) is None:
        return complain(f"there is no agent {arguments.name!r}; there are: {', '.join(agents)}")
    facts = {
        "name": arguments.name,
        "title": agent.title,
        "url" if agent.url else "command": Redactor().text(agent.described()),
        "variables": ", ".join(agent.env),  # their names alone: a value may be a secret
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
