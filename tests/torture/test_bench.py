"""The ratios that the benchmarks have to reach, on this machine, in one run with all contenders."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.torture
@pytest.mark.parametrize("arguments", [("run.py", "--next", "--repeat", "3"), ("remote.py",)])
def test_the_ratios_that_are_required_are_reached(arguments: tuple[str, ...]) -> None:
    program, *options = arguments
    if program == "remote.py":
        pytest.importorskip("httptools", reason="uvicorn is measured with httptools: pip install httptools")
    subprocess.run([sys.executable, BENCH / program, "--check", *options], check=True)
