"""The environment of an agent's process: the gateway's, without the gateway's own variables.

A variable is the gateway's own by its name (of Dragoman, of the service manager, of the export of traces) or by its
value (a token of a gateway, the path of a file that only the gateway reads), whatever its name is.  An operator can
list the variables that agents get besides the usual ones (`--pass-env`).  Variables in an agent's own settings
always reach it.
"""

import os
from collections.abc import Collection, Iterable

from ...foundation.destinations import PUBLIC_ONLY
from ...host.processes import Launch
from ...host.terminals.environment import INHERITED
from ...host.variables import matches
from ..access.tokens import PREFIX

FOR_AGENTS = ("DRAGOMAN_MODEL", PUBLIC_ONLY)  # that our own agents read
OF_SYSTEMD = (
    # with which an agent could speak for the gateway
    *("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "NOTIFY_SOCKET", "WATCHDOG_*"),
    *("CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "MANAGERPID"),
    *("STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CONFIGURATION_DIRECTORY", "LOGS_DIRECTORY", "CACHE_DIRECTORY"),
    *("MEMORY_PRESSURE_*", "SYSTEMD_*"),
)
OWN = ("DRAGOMAN_*", *OF_SYSTEMD, "OTEL_*")  # of the gateway alone
USUAL = (*INHERITED, "LANGUAGE", "SSL_CERT_*", "*_PROXY", "*_proxy", PUBLIC_ONLY)  # with `--pass-env`, too


def environment(launch: Launch, own_paths: Iterable[str] = (), passed: Collection[str] = ()) -> dict[str, str]:
    """What an agent's process gets: its own settings, and of our environment what is not the gateway's own.

    `own_paths` are files and directories that only the gateway reads; `passed`, if given, names what else than the
    usual variables an agent gets, and `*` in a name stands for any letters.
    Our own agents are told to keep to the public internet: what is private here is not their clients'.
    """
    paths = frozenset(map(os.path.realpath, own_paths))
    given = {PUBLIC_ONLY: "1", **launch.environment}
    return {
        name: value
        for name, value in given.items()
        if name in launch.env or (not is_own(name, value, paths) and (not passed or is_passed(name, passed)))
    }


def is_own(name: str, value: str, own_paths: Collection[str] = ()) -> bool:
    """Whether a variable of our environment is the gateway's alone."""
    if name not in FOR_AGENTS and matches(name, OWN):
        return True
    return PREFIX in value or (os.path.isabs(value) and os.path.realpath(value) in own_paths)


def is_passed(name: str, passed: Collection[str]) -> bool:
    """Whether a variable is among those that an operator lets agents have, or one of the usual ones."""
    return matches(name, (*USUAL, *passed))
