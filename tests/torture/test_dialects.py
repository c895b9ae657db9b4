"""Generated messages of every dialect, by the thousand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


@pytest.mark.torture
def test_nothing_is_dropped_in_silence_by_any_dialect() -> None:
    command = [sys.executable, "-m", "pytest", "--timeout", "0", str(TESTS / "dialects" / "test_properties.py")]
    subprocess.run(command, env={**os.environ, "DIALECT_EXAMPLES": "400"}, check=True)
