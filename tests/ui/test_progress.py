"""Commands that take long say how far they have come, on a terminal, and leave no trace of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from at_terminal import DRAGOMAN, AtTerminal

# A run that shows its progress from the first byte on, however fast the machine.
AT_ONCE = """
import sys, dragoman.cli.progress as progress
progress.SHOWN_AFTER = progress.BETWEEN = 0
from dragoman.cli import main
sys.exit(main())
"""


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A session in a file."""
    subprocess.run([*DRAGOMAN, "run", "--agent", "reviewer", "/help"], cwd=tmp_path, capture_output=True)
    listed = subprocess.run([*DRAGOMAN, "sessions", "list"], capture_output=True, text=True, check=True).stdout
    export = [*DRAGOMAN, "sessions", "export", listed.split()[0]]
    file = tmp_path / "exported.jsonl"
    file.write_bytes(subprocess.run(export, capture_output=True, check=True).stdout)
    return file


def test_an_import_says_how_far_it_has_come(exported: Path) -> None:
    words = ("sessions", "import", "--id", "another", str(exported))
    with AtTerminal(*words, cwd=exported.parent, program=[sys.executable, "-c", AT_ONCE]) as run:
        run.see("importing exported.jsonl … 50 %")
        assert run.end() == 0
    assert run.seen == ["another", ""]


def test_an_import_in_a_pipe_prints_the_id_alone(exported: Path) -> None:
    taking = [sys.executable, "-c", AT_ONCE, "sessions", "import", "--id", "another", "-"]
    done = subprocess.run(taking, input=exported.read_bytes(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"another\n", b"")
