"""What runs Dragoman may lie in the workspace; then nobody changes it without a question."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from patience import PATIENCE

# Run by the interpreter in the workspace: asks for permission to write, and has a command try it in a sandbox.
PROGRAM = """
import asyncio, json, os, sys
from dragoman.host.operations import FileRead, FileWrite
from dragoman.host.permissions import Permissions
from dragoman.host.terminals import Terminals, execution
from dragoman.host.terminals.sandbox.sandbox import Sandbox, SandboxUnavailable

async def main(root, path, has_bubblewrap):
    permissions = Permissions("allow-edits")
    written = await permissions.decide("s", FileWrite(path=path, digest="d"), workspace=root)
    other = await permissions.decide("s", FileWrite(path=f"{root}/other", digest="d"), workspace=root)
    read = await permissions.decide("s", FileRead(path=path), workspace=root)
    told = {"written": bool(written), "other": bool(other), "read": bool(read), "status": None}
    if has_bubblewrap:
        async with Terminals(sandbox=Sandbox()) as terminals:
            try:
                await terminals.create("s", execution("touch", [path], cwd=root))
            except SandboxUnavailable as exc:
                told["status"] = str(exc)
    print(json.dumps(told))

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "True"))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a virtual environment in it that this package is installed in."""
    root = tmp_path / "workspace"
    venv.create(root / ".venv", symlinks=True)
    (site,) = (root / ".venv" / "lib").glob("python*/site-packages")
    (site / "shared.pth").write_text("\n".join(path for path in sys.path if os.path.isdir(path)))
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, 1000, 1000, follow_symlinks=False)
    return root


def test_the_environment_that_runs_us_is_protected(workspace: Path) -> None:
    (site,) = (workspace / ".venv" / "lib").glob("python*/site-packages")
    target = site / "msgspec.py"
    has_bubblewrap = shutil.which("bwrap") is not None
    command = [str(workspace / ".venv" / "bin" / "python"), "-c", PROGRAM, str(workspace), str(target)]
    done = subprocess.run([*command, str(has_bubblewrap)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    status = said.pop("status")
    assert said == {"written": False, "other": True, "read": True}
    if has_bubblewrap:
        assert "install Dragoman outside" in status
    assert not target.exists()


@pytest.mark.parametrize("home", [".", "", "home"])
def test_no_settings_are_taken_from_the_workspace_by_a_relative_home(home: str, tmp_path: Path) -> None:
    for directory in (tmp_path / ".config", tmp_path / "home" / ".config"):
        (directory / "dragoman").mkdir(parents=True)
        (directory / "dragoman" / "agents.toml").write_text('[planted]\ncommand = "touch"\nargs = ["fired"]\n')
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    command = [str(Path(sys.executable).with_name("dragoman")), "agents", "list"]
    for settings in ({"HOME": home}, {"HOME": home, "XDG_CONFIG_HOME": "./.config"}):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environ | settings,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert "reviewer" in done.stdout
        assert "planted" not in done.stdout
