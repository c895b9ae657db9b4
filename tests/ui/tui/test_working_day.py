"""A person's whole session at a real terminal: from the start of the program to the next day."""

import shutil
import sys
from pathlib import Path

import pytest
from tmux import Terminal, terminal

PEER = Path(__file__).parent / "peers" / "workmate.py"
DRAGOMAN = f"{sys.executable} -W error -m dragoman"


@pytest.fixture
def mate(home: Path) -> str:
    """An agent with a name of the person's own, which keeps its sessions."""
    settings = home / "config" / "dragoman"
    settings.mkdir(parents=True, exist_ok=True)
    told = f'[workmate]\ntitle = "Workmate"\ncommand = "{sys.executable}"\nargs = ["{PEER}"]\n'
    (settings / "agents.toml").write_text(told)
    return "workmate"


pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def at_rest(screen: Terminal, *words: str) -> str:
    """Wait until the agent has answered, and these words are there."""
    return screen.shows("○ ready", *words)


def test_a_working_day_from_the_first_start_to_the_next_morning(shop: Path, mate: str) -> None:
    with terminal(shop) as screen:
        screen.run(f"{DRAGOMAN} tui --agent testy")
        at_rest(screen, "Testy", "⏎ send")
        # Pick another agent, in a tab of its own.
        screen.press("C-n")
        screen.shows("Which agent?", "Installed", "workmate")
        screen.type("workm")
        screen.gone("echo")
        screen.press("Enter")
        at_rest(screen, "1 ", "2 ", "shop")
        # A prompt with a file, whose name is completed.
        screen.type("look at @prci")
        screen.shows("src/pricing.py")
        screen.press("Tab")
        screen.shows("look at @src/pricing.py")
        screen.press("Enter")
        at_rest(screen, "You said: look at @src/pricing.py", "⧉ src/pricing.py  33 characters")
        # A permission: what will be run is shown, and the answer stays.
        screen.send("run echo done by hand")
        screen.decide("y", "? Run a command?", "echo done by hand", "y Allow once", "n Deny")
        at_rest(screen, "✓ Allow once", "done by hand")
        # Cancel, with two prompts behind it that are kept.
        screen.send("wait")
        screen.shows("Waiting.", "● working")
        screen.send("second errand")
        screen.send("third errand")
        screen.shows("Queue", "1 second errand", "2 third errand")
        screen.press("Escape")
        at_rest(screen, "■ cancelled", "send what waits (2)")
        screen.press("Enter")
        at_rest(screen, "You said: second errand", "You said: third errand")
        # Another model.
        screen.press("C-o")
        screen.shows("Large", "Slower")
        screen.type("lar")
        screen.press("Enter")
        screen.shows("Testy · Large")
        # The first tab is where it was.
        screen.press("M-1")
        screen.shows("Testy · Small")
        screen.send("hello from the first tab")
        at_rest(screen, "hello from the first tab")
        screen.press("M-2")
        screen.shows("You said: third errand")
        screen.press("C-q")
        screen.shows("shell>")
        screen.gone("You said")
        assert screen.setting("alternate_on") == "0"
        assert screen.setting("cursor_flag") == "1"
        # The next morning.
        screen.run("clear")
        screen.run(f"{DRAGOMAN} tui --continue")
        at_rest(screen, "1 ", "2 ", "this is a new one")  # Testy forgets its sessions
        screen.press("M-2")
        at_rest(screen, "You said: third errand", "Testy · Large")
        screen.send("one more")
        at_rest(screen, "You said: one more")
        screen.press("C-q")
        screen.gone("You said")
        assert "Traceback" not in screen.text
