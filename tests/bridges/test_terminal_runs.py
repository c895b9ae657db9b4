"""`dragoman run` with programs that do not speak ACP: five turns each, questions, sizes, cancels and ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

DRAGOMAN = [sys.executable, "-W", "error", "-m", "dragoman"]
PTY = f"{sys.executable} -m dragoman agent pty"
PROGRAM = f"{sys.executable} {Path(__file__).parent / 'peers' / 'program.py'}"
AGENTS = {
    "shell": f"{PTY} -- bash --norc",
    "python": f"{PTY} -- {sys.executable} -q -i",
    "asking": f'{PTY} --prompt "you> $" -- {PROGRAM}',
}


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DRAGOMAN, "run", *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Keeps sessions, and with them the programs, from one run to the next; gives its URL."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    named = [word for name, command in AGENTS.items() for word in ("--agent", f"{name}={command}")]
    words = [*DRAGOMAN, "serve", *named, "--no-auth", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as served:
        assert served.stdout
        yield served.stdout.readline().strip()
        served.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("agent", "turns"),
    [
        (
            "shell",
            [("X=5", ""), ("echo $((X + 1))", "6\n"), ("cd /", ""), ("pwd", "/\n"), ("echo äöü; false", "äöü\n")],
        ),
        (
            "python",
            [
                ("x = 5", ""),
                ("x + 1", "6\n"),
                ("def f():\n    return 'tea'", ""),
                ("f()", "'tea'\n"),
                ("x", "5\n"),
            ],
        ),
        (
            "asking",
            [
                ("tea", "you said tea\n"),
                ("delete", "deleted\n"),
                ("size", "80x24\n"),
                ("delete", "deleted\n"),
                ("leaf", "you said leaf\n"),
            ],
        ),
    ],
)
def test_a_program_takes_five_turns_of_one_session(
    gateway: str, tmp_path: Path, agent: str, turns: list[tuple[str, str]]
) -> None:
    more: tuple[str, ...] = ()
    for prompt, said in turns:
        done = run("--agent", f"{gateway}/{agent}", "--permissions", "allow-all", *more, prompt, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(said) and bool(done.stdout) == bool(said)
        more = ("--continue",)


def test_a_question_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    done = run("--agent", AGENTS["asking"], "delete", cwd=tmp_path)
    assert done.returncode == 4 and "kept" in done.stdout and "Really delete? [y/N]" in done.stderr


def test_the_size_is_an_option_of_the_session(tmp_path: Path) -> None:
    assert run("--agent", AGENTS["asking"], "--set", "size=120x40", "size", cwd=tmp_path).stdout == "120x40\n"


def test_ctrl_c_cancels_the_turn_and_nothing_of_the_program_is_left(tmp_path: Path) -> None:
    words = [*DRAGOMAN, "run", "--json", "--agent", AGENTS["shell"], "echo $$ begun; sleep 1000"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        for line in running.stdout:
            if "begun" in (text := _text(json.loads(line))):
                break
        running.send_signal(signal.SIGINT)
        events = [json.loads(line) for line in running.stdout]
    assert running.returncode == 130 and events[-1]["exitCode"] == 130
    assert not os.path.exists(f"/proc/{text.split()[0]}")


def _text(event: dict[str, Any]) -> str:
    return str(event.get("update", {}).get("content", {}).get("text", ""))


def test_a_program_that_dies_fails_the_run_with_its_status(tmp_path: Path) -> None:
    done = run("--agent", AGENTS["shell"], "echo last; exit 3", cwd=tmp_path)
    assert done.returncode == 5
    assert done.stdout.startswith("last\n") and "the program exited with status 3" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pty"], "which program? Write it after --, such as: dragoman agent pty -- bash"),
        (["pty", "--prompt", "x*", "--", "bash"], "prompt 'x*' matches an empty line"),
        (["pty", "--prompt", "(", "--", "bash"], "prompt '(' is not a regular expression"),
        (["pty", "--program", "shel", "--", "bash"], "there is no program 'shel'; did you mean 'shell'?"),
        (["pty", "--size", "1x1", "--", "bash"], "'1x1' is not a size such as 120x40"),
        (["echo", "--silence", "1"], "are for pty, not for echo"),
        (["echo", "bash"], "are for pty, not for echo"),
    ],
)
def test_wrong_words_are_answered_in_one_line(words: list[str], told: str) -> None:
    done = subprocess.run([*DRAGOMAN, "agent", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert told in done.stderr


def test_a_profile_of_one_s_own_says_how_a_program_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config" / "dragoman" / "programs.toml"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file.write_text(
        f"[mine]\ncommands = ['{Path(sys.executable).name}']\narguments = 'program.py'\nprompt = '^you> $'\n"
        "[[mine.questions]]\npattern = 'delete\\?.*$'\noptions = [\n"
        "{ name = 'Go on', kind = 'allow_always', types = 'y' },\n"
        "{ name = 'Stop', kind = 'reject_once', types = 'n' }]\n"
    )
    done = run("--json", "--agent", f"{PTY} -- {PROGRAM}", "delete", cwd=tmp_path)
    (asked,) = [json.loads(line) for line in done.stdout.splitlines() if '"permission_request"' in line]
    assert [option["name"] for option in asked["options"]] == ["Go on", "Stop"]
    file.write_text("[mine]\nprompts = '^you> $'\n")
    done = subprocess.run(
        [*DRAGOMAN, "agent", "pty", "--", "bash"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert "has the unknown key 'prompts'; did you mean 'prompt'?" in done.stderr
