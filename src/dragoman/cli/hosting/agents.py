"""The agents that a server offers, from its command line."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...host.processes import Launch


def installed_agent(named: str) -> "tuple[str, Launch]":
    """An agent by NAME=CMD or by a known name; raises an Error if it is not installed."""
    from ...errors import Error
    from ...host.processes import find_agent

    name, sign, command = named.partition("=")
    if not name or "/" in name or (sign and not command):
        raise Error(f"--agent takes NAME=CMD or the name of a known agent, not {named!r}")
    launch = find_agent(command if sign else name)
    if not launch.is_installed:
        hint = f"; to install it: {launch.install}" if launch.install else "; see dragoman agents list"
        raise Error(f"there is no program {launch.argv[0]!r} for the agent {name!r}{hint}")
    return name, launch
