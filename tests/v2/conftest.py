"""The official SDK's pre-release that speaks version 2, in an environment of its own that `make test` sets up."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-v2" / "bin" / "python"
sys.path.append(str(ROOT / "tests" / "schema"))  # messages nobody thought of are made there


@pytest.fixture(scope="session")
def sdk_python() -> str:
    """The interpreter that has the SDK."""
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import acp.experimental.v2"]).returncode:
        pytest.skip("the SDK of version 2 is not installed; `make .venv-v2/ready` installs it")
    return str(PYTHON)
