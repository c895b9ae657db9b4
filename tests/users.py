"""Programs run as an ordinary user, also where the tests themselves are root's."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from patience import PATIENCE

import dragoman

USER = 1000
SYSTEM_PYTHON = "/usr/bin/python3"


def user_command(program: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of a Python program that a user runs; skips the test where no user can."""
    if os.geteuid() != 0:
        return [sys.executable, "-c", program, *arguments], dict(os.environ)
    modules = [str(Path(module.__file__ or "").parents[1]) for module in (dragoman, msgspec)]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHONPATH": ":".join(modules)}
    told = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import msgspec"],
        env=environ,
        user=USER,
        group=USER,
        capture_output=True,
        check=False,
    )
    if told.returncode:
        pytest.skip("no Python that a user can run has msgspec")
    return [SYSTEM_PYTHON, "-c", program, *arguments], environ


def as_user(program: str, *arguments: str, state: Path) -> str:
    """What a program prints that a user runs, with a state directory of its own."""
    argv, environ = user_command(program, *arguments)
    environ["XDG_STATE_HOME"] = str(state)
    who = {"user": USER, "group": USER, "extra_groups": ()} if os.geteuid() == 0 else {}
    done = subprocess.run(  # type: ignore[call-overload]
        argv, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False, **who
    )
    assert done.returncode == 0, done.stderr
    printed: str = done.stdout
    return printed
