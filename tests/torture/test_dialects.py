"""Generated messages of every dialect and both versions, by the thousand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SIZES = {"DIALECT_EXAMPLES": "120", "V2_EXAMPLES": "300"}  # messages of each kind


@pytest.mark.torture
@pytest.mark.parametrize("file", ["dialects/test_properties.py", "dialects/test_pieces.py", "v2/test_identity.py"])
def test_nothing_is_dropped_in_silence_by_any_dialect(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "0", str(TESTS / file)]
    subprocess.run(command, env={**SIZES, **os.environ}, check=True)
