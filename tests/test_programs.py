"""Programs are started in few places, and Python in one way: read off the source itself."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE
from test_layers import MODULES, named, tree_of

from dragoman.foundation.programs import (
    beside_python,
    find_program,
    own_command,
    own_environment,
    python_command,
    search_path,
)

# Every module that starts a program or looks for one, and why it may.
STARTING = {
    "foundation/programs.py": "the one place that knows the interpreter and the PATH",
    "transports/process.py": "starts the agent that the user named",
    "host/terminals/children.py": "starts the keeper, by `python_command`",
    "host/terminals/keeper/commands.py": "runs commands that were permitted",
    "host/terminals/sandbox/sandbox.py": "asks bubblewrap which options it has",
    "host/isolation/hiding.py": "tries whether bubblewrap hides what it is to",
    "host/isolation/forwarder.py": "becomes the agent, inside its sandbox",
    "host/terminals/sandbox/escapes.py": "runs inside the sandbox that it tries",
    "coder/search/finding.py": "starts the process that searches, by `own_command`",
    "bridges/claude/program/command.py": "becomes the `claude` program for the user's terminal, and has it log out",
    "gateway/operations/init_process.py": "as process 1, goes on in a child and waits for orphans",
    "ui/tui/writing/outside.py": "starts the user's editor, an agent's login, and what knows the user's clipboard",
    "testing/command.py": "the terminal of tests",
    "testing/rogue/processes.py": "an agent that misbehaves leaves children behind",
    "testing/script.py": "prints from a child, by `python_command`",
}
MODULES_THAT_START = {"subprocess", "multiprocessing", "pty"}
NAMES_THAT_START = {"ProcessPoolExecutor"}
CALLS_THAT_START = ("exec", "spawn", "posix_spawn", "system", "popen", "create_subprocess", "which", "fork")


def test_only_one_module_knows_the_interpreter() -> None:
    knowing = {
        named(path)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Attribute) and node.attr in ("executable", "_base_executable"))
        or (isinstance(node, ast.ImportFrom) and node.module == "sys" and node.names[0].name != "argv")
    }
    assert knowing == {"foundation/programs.py"}


def test_only_listed_modules_start_or_look_for_programs() -> None:
    starting = {named(path) for path in MODULES for node in ast.walk(tree_of(path)) if starts(node)}
    assert starting == set(STARTING)


def starts(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name in MODULES_THAT_START for alias in names)
        case ast.ImportFrom(module=module, names=names):
            return module in MODULES_THAT_START or any(alias.name in NAMES_THAT_START for alias in names)
        case ast.Attribute(attr=attr) if attr in NAMES_THAT_START:
            return True
        case ast.Attribute(value=ast.Name(id="os" | "shutil" | "asyncio"), attr=attr):
            return attr.startswith(CALLS_THAT_START)
    return False


@pytest.mark.parametrize("command", [own_command("platform"), python_command("-c", "import platform")])
def test_python_imports_nothing_from_the_current_directory_or_the_environment(
    command: list[str], tmp_path: Path
) -> None:
    for name in ("platform", "sitecustomize", "usercustomize", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "platform.py")}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_installation_in_the_user_s_own_site_directory_is_found(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "dragoman").symlink_to(Path(python_command.__code__.co_filename).parent.parent)
    (site / "sound.py").write_text("print('found')")
    script = str(site / "dragoman" / "foundation" / "run_module.py")
    done = subprocess.run(
        python_command(script, "sound"), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "found\n"


def test_variables_that_python_heeds_are_left_out() -> None:
    given = {"PYTHONPATH": "x", "PYTHONHOME": "y", "pythonstartup": "z", "HOME": "/home/ada", "LANG": "C"}
    assert own_environment(given) == {"HOME": "/home/ada", "LANG": "C"}


def test_programs_are_found_neither_in_relative_places_nor_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "sh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", f":.:./bin:../bin:{program.parent}:/bin")
    assert find_program("sh") == str(program)
    assert find_program("sh", str(tmp_path)) == "/bin/sh"
    assert search_path(None, str(tmp_path)) == "/bin"
    assert find_program("sh", path="/nowhere:.") is None
    monkeypatch.setenv("PATH", ":.:../bin")
    assert find_program("sh") is None
    assert beside_python(os.path.basename(sys.executable)) == sys.executable
    assert beside_python("no-such-program") is None


def test_a_program_that_turns_up_earlier_on_the_path_is_not_found_instead(tmp_path: Path) -> None:
    path = f"{tmp_path / 'first'}:{tmp_path / 'second'}"
    for name in ("second", "first"):
        program = tmp_path / name / "tool"
        program.parent.mkdir()
        program.touch(mode=0o755)
        assert find_program("tool", path=path) == str(tmp_path / "second" / "tool")
    (tmp_path / "second" / "tool").unlink()
    assert find_program("tool", path=path) == str(tmp_path / "first" / "tool")
