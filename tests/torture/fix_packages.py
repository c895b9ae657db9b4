"""Real packages before and after `/fix`: what changed in their bytes, their imports and their own tests."""

import ast
import itertools
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.foundation.comparing import compared

HERE = Path(__file__).parent
LIST = HERE / "packages.txt"
FETCH = HERE.parent.parent / "scripts" / "fetch-packages"
PROBE = HERE / "imports_probe.py"
# The packages whose own tests run without a network, a terminal or a server, and where these tests are.
TESTED = {
    "beautifulsoup4": "bs4/tests",
    "boltons": "tests",
    "bottle": "test",
    "jinja2": "tests",
    "mako": "test",
    "markdown": "tests",
    "pygments": "tests/test_basic_api.py",
    "sqlparse": "tests",
    "toolz": "toolz",
    "webob": "tests",
}


QUIETLY = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")


class Repaired(NamedTuple):
    """What `/fix` did to a package."""

    findings: Mapping[str, set[int]]  # the lines of the findings that were repaired, by file
    text: str  # what the reviewer said


def packages() -> list[str]:
    return [line.strip() for line in LIST.read_text().splitlines() if line.strip() and not line.startswith("#")]


def fetch(directory: Path) -> None:
    """Have the sources and an environment for them; raises CalledProcessError, for example without a network."""
    subprocess.run([FETCH, directory], check=True)


def copied(directory: Path, package: str, to: Path) -> Path:
    """A fresh copy of a package's sources."""
    shutil.copytree(directory / "sources" / package.replace("==", "-"), to)
    return to


def root_of(package: Path) -> Path:
    """The directory whose packages are imported."""
    return next((package / name for name in ("src", "lib") if (package / name).is_dir()), package)


def fix(package: Path, state: Path) -> Repaired:
    """`/fix` as a user runs it."""
    command = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "--permissions", "allow-edits"]
    done = subprocess.run(
        [*command, "--json", "--cwd", package, "/fix"],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdout=subprocess.PIPE,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    denied = {event["operation"] for event in events if event.get("decision") == "deny"}
    assert denied <= {"file_read"}, denied  # an archive may have an assistant's own settings, which are asked about
    assert done.returncode == (4 if denied else 0), (package.name, events[-1:])
    return _read(package, [event["update"] for event in events if event["type"] == "update"])


def _read(package: Path, updates: list[dict[str, Any]]) -> Repaired:
    findings: dict[str, set[int]] = {}
    for update in updates:
        if update["sessionUpdate"] == "tool_call" and update.get("kind") == "edit":
            for place in update.get("locations", ()):
                path = os.path.relpath(place["path"], package.resolve())
                findings.setdefault(path, set()).add(place["line"])
    said = [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
    return Repaired(findings, "".join(said))


def changed_elsewhere(before: Path, after: Path, repaired: Repaired) -> list[str]:
    """The lines that changed although no finding that was repaired is in their statement."""
    assert _files(before) == _files(after)
    wrong = []
    for name in _files(before):
        old, new = (before / name).read_bytes(), (after / name).read_bytes()
        if old == new:
            continue
        allowed = _statements(name, old, repaired.findings.get(name, set()))
        steps = compared(old.split(b"\n"), new.split(b"\n"))
        touched = {
            line for kind, start, end, _, _ in steps if kind != "equal" for line in range(start + 1, end + 1)
        }
        wrong += [f"{name}:{line}" for line in sorted(touched - allowed)]
    return wrong


def _files(directory: Path) -> list[str]:
    paths = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(str(path.relative_to(directory)) for path in paths)


def _statements(name: str, content: bytes, lines: set[int]) -> set[int]:
    """The lines of the innermost statements, and those of a file that is not Python, which findings are in."""
    if not name.endswith(".py"):
        return lines
    found = set(lines)
    tree = ast.parse(content)
    for _, run in itertools.groupby(tree.body, lambda node: isinstance(node, ast.Import | ast.ImportFrom)):
        block = list(run)  # imports that are sorted are one finding, up to the next statement
        after = next((node.lineno for node in tree.body if node.lineno > block[-1].lineno), 0)
        around = range(block[0].lineno, after or (block[-1].end_lineno or 0) + 1)
        if isinstance(block[0], ast.Import | ast.ImportFrom) and lines.intersection(around):
            found.update(around)
    for node in ast.walk(tree):
        is_simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
        if is_simple and lines.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def imports(directory: Path, package: Path) -> dict[str, list[str]]:
    """How the import of each module went, and which names it takes in vain."""
    done = subprocess.run(
        [directory / "venv" / "bin" / "python", PROBE, root_of(package)],
        cwd=package,
        capture_output=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def outcomes(directory: Path, package: Path, tests: str) -> dict[str, str]:
    """What came of each of a package's own tests."""
    report = package.parent / f"{package.name}.xml"
    python = directory / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-B", "-m", "pytest", *QUIETLY, tests, "--junitxml", report],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(root_of(package)), "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return {
        f"{case.get('classname')}::{case.get('name')}": next((child.tag for child in case), "passed")
        for case in ET.parse(report).iter("testcase")
    }
