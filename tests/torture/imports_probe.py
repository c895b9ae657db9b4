"""A program: import every module below a directory and say how that went.

It runs in the environment of the packages, so it needs the standard library alone.  Every module is imported in a
process of its own.  Besides the error of an import it tells which names modules take from each other in vain, in
functions that nobody calls, too.
"""

import ast
import contextlib
import importlib
import json
import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 20  # seconds for one module
NO_MODULES = {"setup.py", "conftest.py", "__main__.py"}


def modules(root: Path) -> dict[str, Path]:
    """The modules of the packages in a directory, and those beside them."""
    found = {path.stem: path for path in root.glob("*.py") if path.name not in NO_MODULES}
    for top in root.glob("*/__init__.py"):
        for path in top.parent.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            is_whole = all((root.joinpath(*parts[:n]) / "__init__.py").exists() for n in range(1, len(parts)))
            if path.name not in NO_MODULES and is_whole and all(part.isidentifier() for part in parts):
                found[".".join(parts).removesuffix(".__init__")] = path
    return dict(sorted(found.items()))


def taken_in_vain(name: str, path: Path, own: set[str]) -> Iterator[str]:
    """The names that a module takes from modules of the same project and that are not there."""
    module = sys.modules[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            source = f"{'.' * node.level}{node.module or ''}"
            with contextlib.suppress(Exception):
                other = importlib.import_module(source, package)
                if other.__name__.partition(".")[0] in own:
                    yield from (f"{source}:{a.name}" for a in node.names if not _has(other, a.name))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            other = vars(module).get(node.value.id)  # type: ignore[assignment]
            is_own = isinstance(other, types.ModuleType) and other.__name__.partition(".")[0] in own
            if is_own and not _has(other, node.attr):
                yield f"{other.__name__}.{node.attr}"


def _has(module: types.ModuleType, name: str) -> bool:
    if name == "*" or hasattr(module, name):
        return True
    try:
        importlib.import_module(f"{module.__name__}.{name}")
    except Exception:
        return False
    return True


def explored(name: str, found: dict[str, Path]) -> dict[str, list[str]]:
    """What is wrong with a module and with those below it, each in a process that has imported no other."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with open(writing, "w") as pipe:
            json.dump(_explored(name, found), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        read = pipe.read()
    os.waitpid(child, 0)
    told: dict[str, list[str]] = json.loads(read) if read else {name: ["the process ended"]}
    return told


def _explored(name: str, found: dict[str, Path]) -> dict[str, list[str]]:
    below = [other for other in found if other.startswith(f"{name}.")]
    signal.alarm(PATIENCE)
    try:
        importlib.import_module(name)
    except BaseException as exc:
        return {other: [f"{type(exc).__name__}: {exc}"[:200]] for other in (name, *below)}
    signal.alarm(0)
    told: dict[str, list[str]] = {}
    for other in below:
        if "." not in other.removeprefix(f"{name}."):
            told |= explored(other, found)
    own = {other.partition(".")[0] for other in found}
    return told | {name: sorted(set(taken_in_vain(name, found[name], own)))}


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(root))
    sys.dont_write_bytecode = True
    found = modules(root)
    printed = os.dup(1)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)  # modules may print, and read
    told: dict[str, list[str]] = {}
    for name in found:
        if "." not in name:
            told |= explored(name, found)
    with open(printed, "w") as output:
        json.dump(told, output)


if __name__ == "__main__":
    main()
