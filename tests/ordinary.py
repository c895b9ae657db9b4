"""Runs a test file again as an ordinary user, for what root gets past for the wrong reasons."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from patience import PATIENCE

ROOT = Path(__file__).parents[1]
OWNER = (1000, 1000)
SETPRIV = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env")
NEEDED = "import asyncio, ssl, dragoman, pytest"


def run_as_ordinary_user(file: str, *options: str) -> None:
    """Have a test file pass as a user who is not root; skips where no interpreter is theirs to run.

    An environment that root made may rest on an interpreter in root's home; the system's has to do then.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-ordinary-") as directory:
        os.chown(directory, *OWNER)
        variables = [f"HOME={directory}", f"PYTHONPATH={os.pathsep.join(path for path in sys.path if path)}"]
        for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
            become = [*SETPRIV, *variables, python]
            if subprocess.run([*become, "-c", NEEDED], cwd="/", capture_output=True).returncode == 0:
                break
        else:
            pytest.skip("the interpreter of these tests cannot be run by an ordinary user")
        told = ["-q", "-p", "no:cacheprovider", f"--basetemp={directory}/tests", *options, file]
        command = [*become, "-m", "pytest", *told]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
