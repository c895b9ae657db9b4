"""Hides the gateway's own files from agents where possible; otherwise the log says what agents can see."""

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...errors import Error
from ...foundation.directories import home_directory
from ...foundation.places import is_beneath
from ...foundation.programs import installation
from ...host.isolation.boundaries import Own, Writable, overlap, own_things
from ...host.isolation.hiding import CannotHide, Hidden, Hiding, hidden_place
from ...host.terminals.sandbox import landlock
from ..access.workspaces import Workspaces
from ..agents.processes import Processes
from ..agents.upstream import Hosted

log = logging.getLogger("dragoman")


class OwnFiles(NamedTuple):
    """The paths of a gateway that agents must not see."""

    state: Path
    tokens: Path | None = None
    tls: tuple[str, str] | None = None
    socket: str = ""  # at which the gateway's own user, and so an agent that sees it, is an admin


async def keep_apart(own: OwnFiles, processes: Processes, workspaces: Workspaces) -> None:
    """Hide the gateway's own files from its agents, each to its level; refuses sandboxes that could not hold."""
    check_apart(own, processes.agents.values(), workspaces)
    if isolated_agents(processes.agents.values()):
        log.info("%s", landlock.described(landlock.version()))
    agents = [agent for agent in processes.agents.values() if not agent.isolated and is_command(agent)]
    seeing = any(not agent.apart for agent in agents)
    why = "--isolate=off" if seeing else ""
    if any(agent.apart for agent in agents):
        hidden = what_to_hide(own, workspaces)
        try:
            await Hiding(hidden).check()
        except CannotHide as exc:
            why = str(exc)
        else:
            processes.hidden = hidden
            log.info("agents and their commands do not see %s", ", ".join(hidden.paths))
    if why:
        log.warning("agents are not isolated (%s): %s", why, could_read(own, workspaces))
    elif agents and (told := still_seen(own, workspaces)):
        log.warning("%s", told)


def is_command(agent: Hosted) -> bool:
    return isinstance(agent.target, Sequence) and not isinstance(agent.target, str)


def could_read(own: OwnFiles, workspaces: Workspaces) -> str:
    """What agents that are not isolated can read, as a sentence for the operator."""
    ours = f"the tokens, the database of sessions and the admin socket in {own.state}"
    others = ", and the workspaces of all principals" if workspaces.is_per_principal else ""
    socket = f", and can use {own.socket} as the gateway's own user" if own.socket else ""
    return f"each of them, and each command that it runs, can read {ours}{others}{socket}"


def still_seen(own: OwnFiles, workspaces: Workspaces) -> str:
    """What cannot be hidden, as a sentence; empty if everything can."""
    if workspaces.pattern is None:
        return ""
    if workspaces.is_per_principal and not _is_hideable(workspaces.top):
        return f"agents see the workspaces of all principals: {workspaces.top} cannot be hidden from them"
    if not workspaces.is_per_principal and is_beneath(os.path.realpath(own.state), workspaces.top):
        return (
            f"{own.state} lies in the workspace {workspaces.top}, so the gateway can read it for an agent once "
            "somebody permits that: choose another --state or --workspace"
        )
    return ""


def what_to_hide(own: OwnFiles, workspaces: Workspaces) -> Hidden:
    """The paths to hide: the gateway's state, its tokens and keys, and the directory with all workspaces."""
    needed = [os.path.realpath(home_directory()), *installation()]
    has_others = workspaces.pattern is not None and workspaces.is_per_principal and _is_hideable(workspaces.top)
    around = [*needed, "/usr", "/etc/ssl/certs", *([workspaces.top] if workspaces.pattern is not None else ())]
    files = [*([own.tokens] if own.tokens else ()), *(own.tls or ())[1:]]
    places = [os.path.realpath(own.state), *(hidden_place(str(file), around) for file in files)]
    # Not the directory of the socket: that may be /run or /tmp, and nothing replaces the socket while agents run.
    places += [os.path.realpath(own.socket)] if own.socket else []
    return Hidden(list(dict.fromkeys([*places, *([workspaces.top] if has_others else ())])), needed)


def _is_hideable(top: str) -> bool:
    """Whether agents do not need the other files in a directory."""
    return top not in ("/", os.path.realpath(home_directory()))


def isolated_agents(agents: Iterable[Hosted]) -> list[Hosted]:
    """The agents that run in sandboxes or whose commands do."""
    return [agent for agent in agents if agent.sandbox or agent.isolated]


def check_apart(own: OwnFiles, agents: Iterable[Hosted], workspaces: Workspaces) -> None:
    """Refuse a place for the gateway's files that sandboxes can write or see."""
    inside = isolated_agents(agents)
    if not inside or workspaces.pattern is None:
        return
    files = [own.state, *([own.tokens] if own.tokens else ()), *(own.tls or ())]
    ours = own_things(
        *(Own(os.path.realpath(path), "a file of the gateway", "keep it elsewhere") for path in files)
    )
    visible = [path for agent in inside for path in agent.visible]
    others = Own(workspaces.top, "where everybody's workspace is")
    why = overlap([Writable(workspaces.real_pattern)], (), ours) or overlap((), visible, [*ours, others])
    if why:
        raise Error(f"the sandbox would not hold: {why}")
