"""`dragoman new agent` makes projects that work as they are, or says why it makes none."""

import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

DRAGOMAN = [sys.executable, "-m", "dragoman"]


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)


# The second name is a class that the project's own modules import.
@pytest.mark.parametrize("name", ["word-counter", "agent"])
def test_a_new_project_passes_its_tests_and_a_strict_type_checker(tmp_path: Path, name: str) -> None:
    made = run(*DRAGOMAN, "new", "agent", name, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    project = tmp_path / name
    for check in (["pytest", "-q", "-p", "no:cacheprovider"], ["unittest"], ["mypy", "--strict", "."]):
        checked = run(sys.executable, "-m", *check, cwd=project)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "name", ["asyncio", "typing", "test", "msgspec", "pytest", "dragoman", "agent-client", "acp"]
)
def test_a_name_that_python_has_already_is_refused(tmp_path: Path, name: str) -> None:
    package = tmp_path / "installed" / "agent_client"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    path = f"import sys; sys.path.append({str(package.parent)!r}); from dragoman.cli import main; sys.exit(main())"
    made = run(sys.executable, "-c", path, "new", "agent", name, cwd=tmp_path)
    told = f"Python has a module {name.replace('-', '_')!r} already. Choose another name, such as my-{name}\n"
    assert (made.returncode, made.stdout) == (64, "")
    assert made.stderr == f"dragoman: {name!r} cannot be an agent's name: {told}"
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["class", "My-Agent", "1st", "a b", "../up", ""])
def test_a_name_that_cannot_be_imported_is_refused(tmp_path: Path, name: str) -> None:
    made = run(*DRAGOMAN, "new", "agent", name, cwd=tmp_path)
    assert made.returncode == 64
    assert "use small letters, digits and dashes, such as my-agent" in made.stderr
    assert not list(tmp_path.iterdir())
