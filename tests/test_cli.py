"""The command line as a user runs it."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.cli import COMMANDS, main

DRAGOMAN = [sys.executable, "-W", "error", "-m", "dragoman"]
ECHO = f"{sys.executable} -m dragoman agent echo"


def dragoman(*arguments: str, input: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DRAGOMAN, *arguments], input=input, capture_output=True, text=True, timeout=PATIENCE, cwd=cwd
    )


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from or written to the home of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))


def test_help_names_every_command() -> None:
    result = dragoman("--help")
    assert result.returncode == 0
    for command in ("run", "agents", "agent", "setup", "audit"):
        assert f"\n    {command} " in result.stdout


def test_help_needs_neither_an_event_loop_nor_msgspec() -> None:
    code = (
        "import sys; from dragoman.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'asyncio', 'msgspec'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("command", [module.__name__.rpartition(".")[2] for module in COMMANDS])
def test_the_help_of_a_command_says_what_it_is_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    usage, sentence, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: dragoman {command} ")
    assert sentence[0].isupper() and sentence.endswith(".")


def test_what_help_lists_without_loading_it_is_what_there_is() -> None:
    from dragoman.cli import setup, translate, values
    from dragoman.dialects import NAMES
    from dragoman.host.permissions import PRESETS
    from dragoman.ui.editors import EDITORS

    assert values.PRESETS == PRESETS
    assert tuple(EDITORS) == setup.EDITORS
    assert translate.DIALECTS == NAMES


def test_without_a_command_the_help_is_shown() -> None:
    assert "usage: dragoman" in dragoman().stdout


def test_the_version_is_the_one_in_the_changelog_or_ahead_of_it() -> None:
    from dragoman import __version__

    assert dragoman("--version").stdout == f"dragoman {__version__}\n"


def test_a_turn_of_an_agent_is_printed() -> None:
    result = dragoman("run", "--agent", ECHO, "hello")
    assert (result.returncode, result.stdout) == (0, "hello\n")


def test_the_coding_agent_answers_when_no_agent_is_named() -> None:
    assert "/compact" in dragoman("run", "/help").stdout


def test_a_prompt_can_come_from_stdin() -> None:
    assert dragoman("run", "--agent", ECHO, "-", input="from a pipe").stdout == "from a pipe\n"


def test_an_agent_works_in_the_directory_it_was_given(tmp_path: Path) -> None:
    assert dragoman("run", "--agent", ECHO, "--cwd", str(tmp_path), "hello").returncode == 0


def test_a_refusal_has_an_exit_code_of_its_own() -> None:
    assert dragoman("run", "--agent", f"{sys.executable} -m dragoman agent testy", "refuse").returncode == 2


def test_a_limit_has_an_exit_code_of_its_own() -> None:
    assert dragoman("run", "--agent", f"{sys.executable} -m dragoman agent testy", "max_tokens").returncode == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["frobnicate"], 64, "there is no 'frobnicate'; choose from: tui, run, demo"),
        (["run"], 64, "PROMPT"),
        (["run", "--nonsense", "hello"], 64, "--nonsense"),
        (["run", ""], 64, "the prompt is empty"),
        (["run", "--cwd", "/does/not/exist", "hello"], 64, "there is no directory '/does/not/exist'"),
        (["run", "--agent", "does-not-exist-anywhere", "hello"], 5, "cannot start 'does-not-exist-anywhere'"),
        (["run", "--agent", "'unbalanced", "hello"], 64, "cannot read the command"),
        (["run", "--agent", "gopher://example", "hello"], 64, "no transport for"),
        (["run", "--agent", "true", "hello"], 5, "exited with status 0 before it answered initialize"),
        (["agent", "nobody"], 64, "there is no 'nobody'; choose from: coder, claude, reviewer"),
        (["agent"], 64, "NAME"),
        (["agent", "echo", "--model", "x"], 64, "are for the coder, not for echo"),
        (["run", "--agent", "", "hello"], 64, "no agent was named"),
        (["run", "--agent", "''", "hello"], 64, "no agent was named"),
        (["run", "--agent", "testy", "--file", "/proc/self/mem", "hello"], 64, "'/proc/self/mem' cannot be read"),
        (["run", "--set", "=on", "hello"], 64, "not '=on'"),
        (["run", "hello", "world"], 64, "dragoman run: unrecognized arguments: world; see dragoman run --help"),
        (["setup", "zed", "--agent", ""], 64, "there is no agent ''"),
        (["serve", "--listen", "127.0.0.1:0", "--state", __file__], 64, f"{__file__}: File exists"),
    ],
)
def test_a_mistake_is_answered_with_one_line_that_says_what_to_do(
    arguments: list[str], code: int, words: str
) -> None:
    result = dragoman(*arguments)
    assert result.returncode == code
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("redirection", "told"),
    [
        ("<&-", ("hi\n", "", 0)),
        (">&-", ("", "", 0)),
        ("2>&-", ("hi\n", "", 0)),
        ("<&- >&- 2>&-", ("", "", 0)),
        (">/dev/full", ("", "dragoman: the output cannot be written: No space left on device\n", 74)),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_disaster(redirection: str, told: tuple[str, str, int]) -> None:
    command = f"exec {shlex.join([*DRAGOMAN, 'run', '--agent', ECHO, 'hi'])} {redirection}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
    assert (result.stdout, result.stderr, result.returncode) == told


def test_a_directory_that_is_gone_is_named_as_the_reason(tmp_path: Path) -> None:
    words = shlex.join([*DRAGOMAN, "run", "--agent", ECHO, "hi"])
    result = subprocess.run(
        ["sh", "-c", f"rmdir {tmp_path} && {words}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == ("", 64)
    assert result.stderr == "dragoman: the directory this was started in is gone; name another with --cwd\n"


def test_an_agent_that_dies_is_reported_with_its_last_words() -> None:
    dying = f"{sys.executable} -c \"import sys; sys.exit('no licence found')\""
    result = dragoman("run", "--agent", dying, "hello")
    assert result.returncode == 5
    assert "exited with status 1" in result.stderr
    assert "no licence found" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupted_run_ends_with_130_and_takes_its_agent_along() -> None:
    testy = f"{sys.executable} -m dragoman agent testy"
    run = subprocess.Popen(
        [*DRAGOMAN, "run", "--agent", testy, "echo waiting now\nwait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert run.stdout
    printed = b""
    while b"waiting now" not in printed:
        printed += os.read(run.stdout.fileno(), 4096)
    os.kill(run.pid, signal.SIGINT)
    _, stderr = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert b"Traceback" not in stderr
