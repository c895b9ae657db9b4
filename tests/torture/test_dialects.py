"""Generated messages and conversations of every dialect and both versions, by the thousand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SIZES = {"DIALECT_EXAMPLES": "240", "V2_EXAMPLES": "300"}  # messages of each kind
SIZES |= {"DIALECT_CONVERSATIONS": "5000"}  # through each dialect, and 25 with frames of 20 MiB
FILES = ["dialects/test_properties.py", "dialects/test_pieces.py", "dialects/test_random_conversations.py"]


@pytest.mark.torture
@pytest.mark.parametrize("file", [*FILES, "v2/test_identity.py"])
def test_nothing_is_dropped_in_silence_by_any_dialect(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "0", str(TESTS / file)]
    subprocess.run(command, env={**SIZES, **os.environ}, check=True)
