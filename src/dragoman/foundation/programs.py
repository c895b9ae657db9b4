"""How this package starts Python and finds other programs, so that no code of a workspace runs instead.

Every process of ours is an isolated Python (`-I`): the current directory, the user's site directory and all
`PYTHON*` variables do not count.  A `msgspec.py` in a repository is therefore never imported.  No other module
mentions `sys.executable`; a test holds us to it.
"""

import functools
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

_found: dict[tuple[str, str, tuple[str, ...]], str] = {}
_RUN_MODULE = str(Path(__file__).with_name("run_module.py"))


def python_command(*words: str, site: bool = True) -> list[str]:
    """The command that runs a script or a text (`-c`) in an isolated Python; `site`: with installed packages."""
    switches = ["-I", *(["-B"] if sys.dont_write_bytecode else []), *([] if site else ["-S"])]
    return [sys.executable, *switches, *words]


def own_command(module: str, *words: str) -> list[str]:
    """The command that runs a module of this installation in an isolated Python."""
    return python_command(_RUN_MODULE, module, *words)


def own_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for our processes: that of this process, without the variables that Python obeys."""
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if not name.upper().startswith("PYTHON")}


def has_python() -> bool:
    """Whether this process knows its interpreter; a Python embedded in another program may not."""
    return bool(sys.executable)


@functools.cache
def own_places() -> tuple[str, ...]:
    """The directories that run us: this package and, unless it is the system's, its environment."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return (package, os.path.realpath(sys.prefix)) if sys.prefix != sys.base_prefix else (package,)


def installation() -> list[str]:
    """The directories that our programs need to see: the environment, the interpreter, and this package's parent.

    Python finds a package by listing the directory it is in, so that directory has to be visible.
    """
    package, *_ = own_places()
    return [os.path.dirname(package), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)]


def beside_python(name: str) -> str | None:
    """The path of a program that was installed together with this package, if there is one."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    return path if os.access(path, os.X_OK) else None


def find_program(name: str, *workspaces: str, path: str | None = None) -> str | None:
    """The full path of a program on the PATH, without relative entries and without those in a workspace.

    A program that was found once is found again for as long as it exists: a program of that name that appears
    earlier on the PATH while this process runs is not run instead.
    """
    key = name, search_path(path), workspaces
    known = _found.get(key)
    if known is None or not os.access(known, os.X_OK):
        known = _find(name, *workspaces, path=path)
        _found.update({key: known} if known else {})
    return known


def _find(name: str, *workspaces: str, path: str | None = None) -> str | None:
    for directory in search_path(path).split(os.pathsep):
        found = shutil.which(name, path=directory) if directory else None
        if found and not any(is_inside(found, workspace) for workspace in workspaces):
            return found
    return None


def search_path(path: str | None = None, *workspaces: str) -> str:
    """The PATH, or the one given, without relative entries and without those in a workspace."""
    given = os.environ.get("PATH", os.defpath) if path is None else path
    kept = [entry for entry in given.split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(e for e in kept if not any(is_inside(e, workspace) for workspace in workspaces))


def is_inside(path: str, workspace: str) -> bool:
    """Whether a path lies in a directory, either as written or with its links followed."""
    return any(
        os.path.commonpath([top, place]) == top
        for top in (os.path.abspath(workspace), os.path.realpath(workspace))
        for place in (path, os.path.realpath(path))
    )
