"""Every row of the table of mutations: the tests notice each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.torture
def test_the_tests_notice_every_mutation() -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    subprocess.run([sys.executable, "-m", "mutants"], cwd=TESTS.parent, env=environment, check=True)
