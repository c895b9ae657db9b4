"""The environment of commands: variables on an allow-list, never the host's whole environment.

A secret in the host's environment reaches a command only when it is named in full.  Variables that an agent sets
are passed on, but `dangerous` lists those that can change which program runs, so that the user is asked.
"""

import os
from collections.abc import Iterable, Mapping

from ...foundation.programs import search_path
from ..variables import EXPORTED_FUNCTION, is_dangerous, is_secret_name, matches

INHERITED = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
)


def environment(
    set_by_agent: Iterable[tuple[str, str]] = (),
    *,
    inherit: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of a command: the allowed part of ours, then the agent's.

    `inherit` adds names to the allow-list, where `*` means any letters; a secret has to be named in full.
    """
    ours = os.environ if environ is None else environ
    named = tuple(inherit)
    kept = {
        name: value
        for name, value in ours.items()
        if _inherited(name, named) and not value.startswith(EXPORTED_FUNCTION)
    }
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])  # a relative entry would make the directory's files programs
    return {**kept, **dict(set_by_agent)}


def dangerous(set_by_agent: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The names among these that can change which program runs, in the order given."""
    found = (name for name, value in set_by_agent if is_dangerous(name, value))
    return tuple(dict.fromkeys(found))


def _inherited(name: str, named: tuple[str, ...]) -> bool:
    if name in named:
        return True
    return matches(name, (*INHERITED, *named)) and not is_secret_name(name)
