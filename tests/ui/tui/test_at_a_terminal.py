"""The screen at a real terminal: programs that borrow it, signals, a full disk, and what is left behind."""

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from patience import PATIENCE
from tmux import Terminal, terminal

DRAGOMAN = f"{sys.executable} -W error -m dragoman"
TESTY = f"{DRAGOMAN} tui --agent testy"
OVERTAKEN = Path(__file__).parent / "peers" / "overtaken_sizes.py"
LOCKED = Path(__file__).parents[1] / "peers" / "locked_terminal.py"
COLOURED = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def is_clean(screen: Terminal) -> bool:
    """Whether the shell has its terminal back as it was."""
    settings = [
        screen.setting(name) for name in ("alternate_on", "cursor_flag", "mouse_any_flag", "bracket_paste_flag")
    ]
    return settings[:3] == ["0", "1", "0"] and "Traceback" not in screen.text


def descendants(pid: int) -> list[int]:
    try:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*found, *(each for child in found for each in descendants(child))]


def test_programs_borrow_the_terminal_and_give_it_back(shop: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "editing $(cat "$1")"\nread -r line\nprintf "\\n%s" "$line" >> "$1"\n')
    editor.chmod(0o755)
    with terminal(shop, env={"EDITOR": str(editor), "VISUAL": ""}) as screen:
        screen.run(TESTY)
        screen.shows("○ ready")
        # The person's own editor.
        screen.type("echo from here")
        screen.shows("from here")
        screen.press("C-g")
        screen.shows("editing echo from here")
        screen.run("and from there")
        screen.shows("echo from here", "and from there", "○ ready", "⏎ send")
        screen.press("Enter")
        screen.shows("▌  and from there")
        # The shell, for a while.
        screen.press("C-z")
        screen.shows("shell>")
        screen.gone("○ ready")
        screen.run("echo at the shell")
        screen.shows("at the shell\n")
        screen.run("fg")
        screen.shows("○ ready", "▌  and from there")
        screen.send("echo back again")
        screen.shows("○ ready", "back again")
        # A window that somebody drags at.
        screen.resize_often([(40 + 7 * at % 160, 6 + 5 * at % 50) for at in range(200)])
        screen.resize(120, 36)
        screen.shows("○ ready", "back again", "⏎ send")
        # What is copied is in the clipboard of the terminal.
        screen.press("C-y")
        screen.shows("the last message is copied")
        assert screen.copied() == "back again"
        # Somebody who looks elsewhere is called.
        screen.type("\x1b[O")
        screen.send("run echo by hand")
        screen.rings()
        screen.decide("n", "? Run a command?")
        screen.shows("✗ Deny", "○ ready")
        screen.press("C-q")
        screen.shows("shell>")
        assert is_clean(screen)


def test_a_size_that_a_newer_one_overtook_does_not_stay(shop: Path) -> None:
    with terminal(shop) as screen:
        screen.run(f"{sys.executable} {OVERTAKEN} tui --agent testy")
        screen.shows("○ ready", "⏎ send")
        for pid in descendants(int(screen.setting("pane_pid"))):
            if str(OVERTAKEN) in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGUSR1)
        screen.send("echo whole again")
        screen.shows("▌  echo whole again", "○ ready")
        screen._until(lambda text: "⏎ send" in text.split("\n")[35], "the last line never used")
        screen.press("C-q")
        screen.shows("shell>")


def test_a_hang_up_ends_the_screen_and_its_agent_and_leaves_the_terminal_clean(shop: Path) -> None:
    with terminal(shop) as screen:
        for number in (signal.SIGHUP, signal.SIGTERM):
            screen.run("clear")
            screen.run(TESTY)
            screen.shows("○ ready")
            screen.send(f"echo before {number.name}")
            screen.shows("○ ready", f"before {number.name}")
            (ours, *others) = descendants(int(screen.setting("pane_pid")))
            assert others
            os.kill(ours, number)
            screen.shows("shell>")
            gone([ours, *others])
            assert is_clean(screen), screen.text
        # The terminal itself is gone.
        screen.run("clear")
        screen.run(TESTY)
        screen.shows("○ ready")
        started = descendants(int(screen.setting("pane_pid")))
        assert len(started) > 1
        screen.close()
        gone(started)


def gone(pids: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while left := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_disk_without_room_holds_nobody_up_and_is_told_where_something_is_not_kept(shop: Path) -> None:
    with terminal(shop) as screen:
        screen.run("ulimit -f 0")  # no file can be written to, as on a full disk
        screen.run(TESTY)
        screen.shows("○ ready")
        screen.send("echo it goes on")
        screen.shows("○ ready", "it goes on")
        screen.press("C-p")
        screen.type("export as markdown")
        screen.shows("Write the conversation")
        screen.press("Enter")
        screen.shows("Write it to which file?")
        screen.press("Enter")
        screen.shows("not written: File too large")
        screen.press("Up")
        screen.shows("echo it goes on")
        screen.press("C-q")
        screen.shows("shell>")
        assert is_clean(screen)


def test_without_colours_every_mark_is_a_sign_and_the_chosen_line_stands_out(shop: Path) -> None:
    with terminal(shop, env={"NO_COLOR": "1"}) as screen:
        screen.run(f"{TESTY} --theme dragoman-dark")
        screen.shows("○ ready")
        screen.type("tool\nfailed_tool\nplan")
        screen.shows("failed_tool", "plan")
        screen.press("Enter")
        screen.shows("○ ready", "✓ Edit", "✗ Read", "▸ Leap")
        screen.press("C-o")
        screen.shows("Large", "Slower")
        raw = screen.raw
        assert not COLOURED.search(raw)
        (chosen,) = [line for line in raw.split("\n") if "Small" in line and "●" in line]
        assert re.search(r"[\[;]4m", chosen)  # it is underlined
        screen.press("Escape", "C-q")
        screen.shows("shell>")


@pytest.mark.parametrize(("background", "ground"), [("#ffffff", "#fbfaf7"), ("#101010", "#14161b")])
def test_the_palette_is_light_where_the_terminal_is(shop: Path, background: str, ground: str) -> None:
    with terminal(shop, env={"COLORTERM": "truecolor"}) as screen:
        screen.background(background)
        screen.run(f"{TESTY} --theme dragoman")
        screen.shows("○ ready")
        red, green, blue = (int(ground[at : at + 2], 16) for at in (1, 3, 5))
        assert f"48;2;{red};{green};{blue}" in screen.raw
        screen.press("C-q")
        screen.shows("shell>")


def test_an_agents_login_has_the_terminal_to_itself(shop: Path, tmp_path: Path) -> None:
    login = tmp_path / "agent"
    login.write_text(
        f'#!/bin/sh\nif [ "$1" = --login ]; then echo "who are you?"; read -r name; exit 3; fi\n'
        f"exec {sys.executable} {LOCKED}\n"
    )
    login.chmod(0o755)
    with terminal(shop) as screen:
        screen.run(f"{DRAGOMAN} tui --agent {login}")
        screen.decide("y", "? The agent wants you to log in", "In a browser")
        screen.shows("who are you?")
        screen.run("Ada")
        screen.shows("the login failed", "ended with status 3")
        screen.press("C-q")
        screen.shows("shell>")
        assert is_clean(screen)


WITHOUT = "import sys; sys.modules['textual'] = None; from dragoman.cli import main; sys.exit(main([]))"


def test_at_a_terminal_the_demonstration_is_on_the_screen_and_without_the_extra_it_is_said_what_to_install(
    shop: Path,
) -> None:
    with terminal(shop) as screen:
        screen.run(f"{DRAGOMAN} demo --screen")
        screen.shows("○ ready", "Reviewer", "⏎ send")
        screen.press("C-q")
        screen.shows("shell>")
        screen.run("clear")
        screen.run(f'{sys.executable} -c "{WITHOUT}"')
        screen.shows("The screen is not installed; to install it: pip install 'dragoman[tui]'")
