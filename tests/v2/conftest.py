"""The official SDK's pre-release that speaks version 2, in an environment of its own beside the project's."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-v2"
READY = HOME / "ready"
sys.path.append(str(ROOT / "tests" / "schema"))  # messages nobody thought of are made there
WANTED = "agent-client-protocol>=1.0.0rc1,<1.1"
PATIENCE = 180  # seconds to have it installed


@pytest.fixture(scope="session")
def sdk_python() -> str:
    """The interpreter that has the SDK; made when first needed, kept afterwards."""
    python = str(HOME / "bin" / "python")
    with (ROOT / ".venv-v2.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not READY.exists():
            install(python)
    return python


def install(python: str) -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    try:
        run(sys.executable, "-m", "venv", str(HOME))
        (HOME / ".gitignore").write_text("*\n")
        run(python, "-m", "pip", "install", "-q", "--retries", "0", "--timeout", "15", WANTED)
        run(python, "-c", "import acp.experimental.v2")
    except (subprocess.SubprocessError, OSError) as problem:
        reason = str(getattr(problem, "stderr", "") or problem).strip().splitlines()
        pytest.skip(f"{WANTED} cannot be installed: {reason[-1] if reason else problem}")
    READY.touch()


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
