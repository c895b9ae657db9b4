"""Every example is run, and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "cancelling": ["Working…", "cleaned up.", "cancelled"],
    "echo_client": ["You said: hello", "end_turn"],
    "extensions": ["Lisbon", "The agent thinks about the weather", "end_turn"],
    "lending_client": ["Read a file?", "Agent's description: Edit note.txt", "'no newline\\n'"],
    "shouting_proxy": ["YOU SAID: HELLO", "end_turn"],
}
RUN_BY_OTHERS = {"echo_agent", "careful_agent"}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_does_what_it_says(name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, result.stderr
    for words in SAYS[name]:
        assert words in result.stdout


def test_every_example_is_run_and_short() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS) | RUN_BY_OTHERS
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 60, path.name
