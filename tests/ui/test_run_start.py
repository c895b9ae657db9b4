"""An agent that takes long to start: the run waits as long as the user lets it, and shows that it does."""

import subprocess
import sys
from pathlib import Path

from at_terminal import DRAGOMAN, AtTerminal, peer
from patience import PATIENCE

# A run in which everything else that reaches an agent gives up at once.
IMPATIENT = """
import sys, dragoman.client.connecting
dragoman.client.connecting.connect.__kwdefaults__["start_timeout"] = 0.1
from dragoman.cli import main
sys.exit(main())
"""


def test_a_terminal_shows_for_how_long_the_agent_has_been_starting(tmp_path: Path) -> None:
    here = tmp_path / "here"
    late = ("run", "--agent", peer("late", str(here)), "hello")
    with AtTerminal(*late, cwd=tmp_path, program=[sys.executable, "-c", IMPATIENT]) as run:
        run.see(f"starting {Path(sys.executable).name} … 1 s")
        run.see(" … 2 s")
        here.touch()
        run.see("Here I am.")
        assert run.end() == 0
    assert run.seen[0] == "Here I am."  # the line that counted is gone


def test_a_pipe_gets_a_line_after_a_while(tmp_path: Path) -> None:
    here = tmp_path / "here"
    command = [*DRAGOMAN, "run", "--timeout", "60", "--agent", peer("late", str(here)), "hello"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True) as run:
        assert run.stderr
        assert run.stderr.readline() == f"starting {Path(sys.executable).name} … 5 s\n"
        here.touch()
        stdout, stderr = run.communicate(timeout=PATIENCE)
    assert (stdout, stderr, run.returncode) == ("Here I am.\n", "", 0)
