"""The real language servers that tests drive, one at a time on the PATH."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

NPM = Path(__file__).parents[2] / "bench" / ".cache" / "language-servers" / "node_modules" / ".bin"
PIP = Path(sys.prefix) / "bin"


class Project(NamedTuple):
    """A server with a project in its language that has one mistake, and how to mend it."""

    programs: tuple[Path, ...]
    file: str
    text: str
    mistake: str  # in the words of the server
    wrong: str
    right: str


PYTHON = "def greet(name: str) -> str:\n    return nmae\n\n\nprint(greet('Ada'))\n"
SCRIPT = "function greet(name: string): string {\n  return nmae;\n}\nconsole.log(greet('Ada'));\n"
SERVERS = {
    "pylsp": Project((PIP / "pylsp",), "a.py", PYTHON, "undefined name 'nmae'", "nmae", "name"),
    "pyright": Project((NPM / "pyright-langserver",), "a.py", PYTHON, '"nmae" is not defined', "nmae", "name"),
    "typescript-language-server": Project(
        (NPM / "typescript-language-server", NPM / "tsc"), "a.ts", SCRIPT, "Cannot find name 'nmae'", "nmae", "name"
    ),
}


def put_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path, *programs: Path) -> None:
    """Have these programs found, and no other language server of this machine; skip where one is missing."""
    if missing := [program.name for program in programs if not program.exists()]:
        pytest.skip(f"{', '.join(missing)} is not installed (scripts/language-servers does, where npm is there)")
    directory.mkdir()
    for program in programs:
        (directory / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
