"""Every way a run can end has an exit code, and a real process has it."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from at_terminal import DRAGOMAN, TESTY, dragoman, peer
from patience import PATIENCE


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("echo done", 0),
        ("refuse", 2),
        ("max_tokens", 3),
        ("max_turn_requests", 3),
        ("ask", 4),
        ("fail", 5),
        ("crash 7", 5),
    ],
)
def test_the_end_of_a_turn_is_the_exit_code(prompt: str, code: int, tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, prompt, cwd=tmp_path)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_what_an_error_says_besides_its_message_is_shown_as_json(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "error -32050 out of paper", cwd=tmp_path)
    assert result.returncode == 5
    assert 'the agent answered with an error: out of paper (-32050) {"from": "testy"}\n' in result.stderr


def test_what_was_denied_counts_whoever_denied_it(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--permissions", "deny", "ask", cwd=tmp_path)
    assert result.returncode == 4
    assert result.stdout == "Not allowed: reject.\n"
    assert "the preset deny" in result.stderr
    assert "1 denied" in result.stderr


def test_a_refusal_weighs_more_than_what_was_denied(tmp_path: Path) -> None:
    assert dragoman("run", "--agent", TESTY, "ask\nrefuse", cwd=tmp_path).returncode == 2


def test_a_turn_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--timeout", "3", "wait", cwd=tmp_path)
    assert result.returncode == 3
    if result.stdout:  # on a machine so slow that it has not begun by then there is nothing to cancel
        assert result.stdout == "Waiting.Stopping.\n"  # it had time for its last words
        assert "timeout: 3 s have passed" in result.stderr


def test_a_turn_that_was_cut_short_is_no_success_whatever_the_agent_calls_it(tmp_path: Path) -> None:
    limited = [*DRAGOMAN, "run", "--agent", peer("smooth"), "--timeout", "3", "wait"]
    assert subprocess.run(limited, stdin=subprocess.DEVNULL, cwd=tmp_path).returncode == 3
    endless = [*DRAGOMAN, "run", "--agent", peer("smooth"), "wait"]
    run = subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path)
    assert run.stdout
    assert run.stdout.read(8) == b"Waiting."
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 130


def test_an_agent_that_never_starts_is_given_up(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", "sleep 60", "--timeout", "0.2", "hello", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (3, "")
    assert "has not started yet" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_stop_takes_its_agent_along(number: int, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*DRAGOMAN, "run", "--agent", TESTY, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert run.stdout
    assert run.stdout.read(8) == b"Waiting."
    run.send_signal(number)
    _, stderr = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert b"Traceback" not in stderr


def test_a_reader_that_has_had_enough_ends_the_run(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*DRAGOMAN, "run", "--agent", TESTY, "flood 1000000 100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert run.stdout and run.stderr
    run.stdout.read(8)
    run.stdout.close()
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cwd", "/does/not/exist"], "there is no directory '/does/not/exist'"),
        (["--permissions", "everything"], "there is no 'everything'; choose from: ask, "),
        (["--timeout", "soon"], "'soon' is not a number of seconds"),
        (["--timeout", "0"], "'0' is not a number of seconds"),
        (["--timeout", "inf"], "'inf' is not a number of seconds"),
        (["--set", "model"], "--set wants OPTION=VALUE, not 'model'"),
        (["--set", "=large"], "--set wants OPTION=VALUE, not '=large'"),
        (["--set", "model=huge"], "no value 'huge'; its values are small, large"),
        (["--set", "nothing=x"], "no option 'nothing'; its options are model, voice, verbose"),
        (["--set", "verbose=perhaps"], "on or off, not 'perhaps'"),
        (["--mode", "zen"], "no mode 'zen'; its modes are code, plan"),
        (["--file", "missing.txt"], "there is no file 'missing.txt'"),
        (["--session", "unheard-of"], "knows no session 'unheard-of'"),
        (["--session", "x", "--continue"], "not allowed with argument"),
        (["--continue"], "has no session in"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_one_line_and_wrong_usage(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, *arguments, "hello", cwd=tmp_path)
    assert result.returncode == 64
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_agent_without_modes_says_that_it_has_none(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", "echo", "--mode", "plan", "hello", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (64, "dragoman: this agent has no mode 'plan'; it has no modes\n")


def test_an_agent_that_forgets_cannot_go_on(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", "echo", "--continue", "hello", cwd=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (64, 1)
    result = dragoman("run", "--agent", "echo", "--session", "x", "hello", cwd=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (64, 1)


@pytest.mark.parametrize("whose", ["the user's", "the workspace's"])
def test_rules_that_cannot_be_read_are_named_with_their_line(whose: str, home: Path, tmp_path: Path) -> None:
    rules = home / "config/dragoman" if whose == "the user's" else tmp_path / ".dragoman"
    rules.mkdir(parents=True)
    (rules / "permissions.toml").write_text("[[allow]]\n")
    result = dragoman("run", "hello", cwd=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (64, 1)
    assert f"{rules / 'permissions.toml'}:1" in result.stderr


def test_what_cannot_be_recorded_is_not_allowed(home: Path, tmp_path: Path) -> None:
    (home / "state").write_text("in the way")
    result = dragoman("run", "--agent", TESTY, "--permissions", "allow-all", "ask", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (4, "Not allowed: reject.\n")
    assert "Traceback" not in result.stderr


def test_a_known_agent_that_is_missing_comes_with_how_to_get_it(home: Path, tmp_path: Path) -> None:
    agents = home / "config/dragoman/agents.toml"
    agents.parent.mkdir(parents=True)
    agents.write_text('[absent]\ncommand = "absent-agent"\ninstall = "get absent"\n')
    result = dragoman("run", "--agent", "absent", "hello", cwd=tmp_path)
    assert result.returncode == 5
    assert result.stderr.endswith("; to install it: get absent\n")


def test_an_agent_that_wants_a_login_is_no_riddle(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", peer("locked"), "hello", cwd=tmp_path)
    assert result.returncode == 5
    assert result.stderr.splitlines() == [
        "dragoman: the agent wants you to log in first",
        "  With a key; to log in, run again with --login key",
    ]
    result = dragoman("run", "--agent", peer("locked") + " 'set THE_KEY'", "hello", cwd=tmp_path)
    assert result.stderr.startswith("dragoman: the agent wants you to log in first; it says: set THE_KEY\n")


def test_a_login_at_a_terminal_is_told_as_the_command_to_run(tmp_path: Path) -> None:
    agent = peer("locked_terminal")
    result = dragoman("run", "--agent", agent, "hello", cwd=tmp_path)
    assert result.returncode == 5
    assert result.stderr.splitlines() == [
        "dragoman: the agent wants you to log in first",
        f"  In a browser: opens one; run: env MODE=login {agent} --login 'two words'",
        "  The older way; run: agent login",
        "  odd; to log in, run again with --login odd",
    ]


def test_a_known_agent_that_wants_a_login_comes_with_how_to_log_in(home: Path, tmp_path: Path) -> None:
    agents = home / "config/dragoman/agents.toml"
    agents.parent.mkdir(parents=True)
    program, *words = (json.dumps(word) for word in peer("locked").split())
    agents.write_text(f'[locked]\ncommand = {program}\nargs = [{", ".join(words)}]\nlogin = "locked login"\n')
    result = dragoman("run", "--agent", "locked", "hello", cwd=tmp_path)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (5, "  to log in: locked login")
