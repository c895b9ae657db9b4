"""What counts as an answer: a key that was pressed alone, after silence, at a real terminal."""

import json
import os
import shlex
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from at_terminal import DRAGOMAN, TESTY, AtTerminal, peer
from patience import PATIENCE

from dragoman.ui.headless.keys import ARMING, PASTE, PASTE_END

ASK = ["run", "--agent", TESTY, "ask"]
SCRIPTS = Path(__file__).with_name("key_scripts.py")


@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "not marked"])
def test_a_paste_that_ends_in_a_key_answers_nothing(is_marked: bool, tmp_path: Path) -> None:
    with AtTerminal(*ASK, cwd=tmp_path) as run:
        for size in (2, 1025, 4097):  # `key_scripts` has all around those in which a terminal hands out a paste
            run.see("Press")
            pasted = "x" * (size - 1) + "y"
            run.press(f"{PASTE}{pasted}{PASTE_END}" if is_marked else pasted)
        run.see("Press")
        run.press("n")
        assert run.end() == 4
    assert "Allowed" not in run.screen


def test_a_paste_that_has_not_ended_answers_nothing(tmp_path: Path) -> None:
    with AtTerminal(*ASK, cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press(f"{PASTE}some text")
        for _ in range(3):
            run.press("y")
            assert not run.shows("Allowed", within=2 * ARMING)  # or there was no silence before the next one
        run.press(PASTE_END)
        run.see("Press one of")
        run.press("n")
        assert run.end() == 4


def test_a_key_that_is_held_down_answers_nothing(tmp_path: Path) -> None:
    with AtTerminal(*ASK, cwd=tmp_path) as run:
        run.see("The agent asks for permission")
        for _ in range(60):  # as a keyboard repeats it
            run.press("y")
            assert not run.shows("Press", within=0.03)
        run.see("Press a key:")
        run.press("n")
        assert run.end() == 4
    assert "Allowed" not in run.screen


def test_a_sentence_that_is_being_written_answers_nothing(tmp_path: Path) -> None:
    with AtTerminal(*ASK, cwd=tmp_path) as run:
        run.see("Press a key:")
        for letter in "yes, but not the second one":
            run.press(letter)
            assert not run.shows("llowed", within=0.05)
        run.see("Press one of")
        run.press("n")
        assert run.end() == 4
    assert "Allowed" not in run.screen


def test_nothing_is_allowed_that_was_not_pressed_alone_after_silence() -> None:
    """Two hundred people at terminals of their own: pastes, held keys, type-ahead, suspensions, resized windows."""
    played = subprocess.run(
        [sys.executable, "-W", "error", SCRIPTS],
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(SCRIPTS.parents[1])},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert played.returncode == 0, played.stderr
    told = json.loads(played.stdout)
    assert told["unexplained"] == []
    assert sum(told["answers"].values()) == 200
    assert min(told["answers"].get(answer, 0) for answer in ("yes", "no")) >= 20  # or nothing was tried


def test_a_question_is_answered_after_ctrl_z_and_fg(tmp_path: Path) -> None:
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with AtTerminal(program=shell, cwd=tmp_path, env={"PS1": "$ "}) as run:
        run.press(f"{shlex.join([*DRAGOMAN, *ASK])}\n")
        for _ in range(2):
            run.see("Press")
            run.press("\x1a")
            run.see("Stopped")
            run.press("fg\n")
        run.see("Press one of")
        run.press("y")
        run.see("Allowed: allow.")
        run.see("$ ")
        run.press("echo ended with $?\n")
        run.see("ended with 0")
        run.press("stty -a | grep -o '[- ]icanon'\n")
        run.see(" icanon")
        run.press("exit\n")
        run.end()


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_at_a_question_leaves_the_terminal_as_it_was(number: int, tmp_path: Path) -> None:
    with AtTerminal(*ASK, cwd=tmp_path) as run:
        before = termios.tcgetattr(run.fd)
        run.see("Press a key:")
        run.process.send_signal(number)
        assert run.end() == 130
        assert termios.tcgetattr(run.fd) == before
    assert "Traceback" not in run.screen


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "deaf"])
def test_a_terminal_that_is_gone_ends_the_run(is_told: bool, tmp_path: Path) -> None:
    deaf = ["sh", "-c", 'trap "" HUP; "$@"; exit $?', "sh", *DRAGOMAN]  # as under nohup: no signal tells it
    with AtTerminal(*ASK, cwd=tmp_path, program=DRAGOMAN if is_told else deaf) as run:
        run.see("Press a key:")
        os.close(run.fd)  # as when its window is closed
        run.fd = os.open(os.devnull, os.O_RDWR)
        assert run.process.wait(PATIENCE) == 130


UNWRITABLE = {
    "stderr full": "exec 2>/dev/full",
    "stdout full": "exec >/dev/full",
    "both full": "exec >/dev/full 2>&1",
    "stderr closed": "exec 2>&-",
}


@pytest.mark.parametrize("agent", [TESTY, peer("patient")], ids=["testy", "one that goes on"])
def test_a_question_that_cannot_be_shown_ends_the_run(agent: str, tmp_path: Path) -> None:
    words = [*DRAGOMAN, "run", "--agent", agent, "echo before\nask\nask\nwait"]
    ended = subprocess.run(
        ["sh", "-c", f"exec 2>/dev/full; exec {shlex.join(words)}"], cwd=tmp_path, timeout=PATIENCE
    )
    assert ended.returncode == 74


@pytest.mark.parametrize("prompt", ["ask", "wait", "run echo hello", "echo hello\nask\nwait"])
@pytest.mark.parametrize("how", UNWRITABLE)
def test_a_run_ends_where_its_output_cannot_be_written(how: str, prompt: str, tmp_path: Path) -> None:
    seconds = "2" if "wait" in prompt else "60"
    words = shlex.join(
        [*DRAGOMAN, "run", "--timeout", seconds, "--agent", TESTY, "--permissions", "allow-all", prompt]
    )
    ended = subprocess.run(["sh", "-c", f"{UNWRITABLE[how]}; exec {words}"], cwd=tmp_path, timeout=PATIENCE)
    waits_on = how == "stderr closed" and "wait" in prompt  # nothing is lost there: it was not wanted
    assert ended.returncode == (3 if waits_on else 74 if "full" in how else 0)


@pytest.mark.parametrize("prompt", ["ask", "wait", "run echo hello", "echo hello\nask\nwait"])
def test_a_run_ends_where_nobody_reads_what_it_shows(prompt: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*DRAGOMAN, "run", "--timeout", "6", "--agent", TESTY, "--permissions", "allow-all", prompt]
    with open(writing, "wb") as nowhere:
        ended = subprocess.run(words, stdout=nowhere, stderr=nowhere, cwd=tmp_path, timeout=PATIENCE)
    assert ended.returncode == 0  # as programs do whose reader has had enough


INTERRUPTED_BY_AN_IMPORT = """
import builtins, os, signal, sys
from dragoman.__main__ import main
load, module = builtins.__import__, sys.argv.pop()
def interrupted(name, *args):
    if name == module:
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *args)
builtins.__import__ = interrupted
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "code"),
    [("argparse", -signal.SIGINT), ("tomllib", 130)],
    ids=["while modules are imported", "while a command runs"],
)
def test_ctrl_c_before_there_is_a_run_is_no_traceback(module: str, code: int) -> None:
    words = [sys.executable, "-c", INTERRUPTED_BY_AN_IMPORT, "agents", "list", module]
    ended = subprocess.run(words, capture_output=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"", b"")


def test_next_to_nothing_is_loaded_before_ctrl_c_is_no_traceback() -> None:
    """Python itself has the first ten milliseconds, in which nobody can help it."""
    code = "import sys; had = {*sys.modules}; from dragoman.__main__ import main; print(*{*sys.modules} - had)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True, timeout=PATIENCE).split())
    ours = {name for name in loaded if name.startswith("dragoman")}
    assert ours == {"dragoman", "dragoman.__main__", "dragoman.foundation", "dragoman.foundation.names"}
    assert loaded.isdisjoint({"typing", "json", "msgspec", "asyncio", "argparse"})
