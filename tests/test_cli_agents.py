"""`dragoman agents`, `setup` and `audit` as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.host.audit import AuditLog

DRAGOMAN = [sys.executable, "-W", "error", "-m", "dragoman"]
OWN = """
[mine]
title = "My own"
command = "/opt/mine/agent"
args = ["--acp", "two words"]
env = { MINE_TOKEN = "very-secret" }
install = "make mine"

[remote]
url = "https://agents.example.com/acp"

[echo]
title = "Another echo"
command = "cat"
"""


def dragoman(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DRAGOMAN, *arguments], capture_output=True, text=True, timeout=30)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def own_agents(home: Path) -> Path:
    file = home / "config/dragoman/agents.toml"
    file.parent.mkdir(parents=True)
    file.write_text(OWN)
    return file


# Agents


def test_all_known_agents_are_listed_with_how_they_are_started() -> None:
    result = dragoman("agents", "list")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert (result.returncode, result.stderr) == (0, "")
    assert {"echo", "testy", "claude", "codex", "gemini", "opencode", "goose", "qwen", "kimi", "copilot"} <= set(
        lines
    )
    assert lines["testy"].split()[1] == "installed"
    assert lines["gemini"].endswith("gemini --acp")
    assert "\x1b" not in result.stdout


def test_a_program_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    lines = {line.split()[0]: line for line in dragoman("agents", "list").stdout.splitlines()}
    assert "not found" in lines["gemini"] and "not found" in lines["claude"]
    assert "installed" in lines["echo"]


def test_agents_of_ones_own_are_listed_and_win(own_agents: Path) -> None:
    lines = {line.split()[0]: line for line in dragoman("agents", "list").stdout.splitlines()}
    assert "not found" in lines["mine"] and "My own" in lines["mine"]
    assert lines["remote"].endswith("https://agents.example.com/acp")
    assert "Another echo" in lines["echo"]


def test_one_agent_is_shown_without_its_secrets(own_agents: Path) -> None:
    result = dragoman("agents", "show", "mine")
    assert result.returncode == 0
    assert "/opt/mine/agent --acp 'two words'" in result.stdout
    assert "MINE_TOKEN" in result.stdout and "very-secret" not in result.stdout
    assert "make mine" in result.stdout
    assert str(own_agents) in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["agents"], "required: COMMAND"),
        (["agents", "frobnicate"], "invalid choice: 'frobnicate'"),
        (["agents", "show"], "required: NAME"),
        (["agents", "show", "nobody"], "there is no agent 'nobody'; there are: "),
        (["setup"], "required: EDITOR"),
        (["setup", "ed"], "invalid choice: 'ed'"),
        (["setup", "zed", "--agent", "nobody"], "there is no agent 'nobody'"),
        (["audit"], "nothing has been recorded yet"),
        (["audit", "--verify"], "nothing has been recorded yet"),
        (["audit", "/does/not/exist"], "there is no log '/does/not/exist'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_line_and_wrong_usage(arguments: list[str], words: str) -> None:
    result = dragoman(*arguments)
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [["agents", "list"], ["agents", "show", "x"], ["setup", "zed"], ["run", "x"]])
def test_a_file_of_agents_that_cannot_be_read_is_named(command: list[str], own_agents: Path) -> None:
    own_agents.write_text("[broken\n")
    result = dragoman(*command)
    assert (result.returncode, result.stdout) == (64, "")
    assert f"cannot read {own_agents}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


# Setup


def started(entry: dict[str, object]) -> str:
    """What an agent says that is started as an editor would start it."""
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    command = [str(entry["command"]), *map(str, entry["args"])]  # type: ignore[call-overload]
    bare = {"PATH": "/nonexistent", "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(command, input=hello, capture_output=True, text=True, timeout=30, env=bare).stdout


@pytest.mark.parametrize(
    ("editor", "keys"), [("zed", "agent_servers"), ("jetbrains", "agent_servers"), ("vscode", "acp.agents")]
)
def test_what_an_editor_is_told_starts_the_agent_without_a_path(editor: str, keys: str) -> None:
    result = dragoman("setup", editor, "--agent", "testy")
    assert result.returncode == 0
    (entry,) = json.loads(result.stdout)[keys].values()
    assert "put this into" in result.stderr
    assert entry.get("type") == ("custom" if editor == "zed" else None)
    assert '"protocolVersion":1' in started(entry)


@pytest.mark.parametrize("editor", ["neovim", "emacs"])
def test_what_an_editor_with_a_language_is_told_is_well_formed(editor: str, own_agents: Path) -> None:
    result = dragoman("setup", editor, "--agent", "mine")
    assert result.returncode == 0
    for word in ('"/opt/mine/agent"', '"--acp"', '"two words"', '"My own"', "MINE_TOKEN=very-secret"):
        assert word in result.stdout
    for opening, closing in ("()", "{}", "[]"):
        assert result.stdout.count(opening) == result.stdout.count(closing)


def test_an_agent_of_ours_is_set_up_where_none_is_named() -> None:
    (entry,) = json.loads(dragoman("setup", "zed").stdout)["agent_servers"].values()
    assert entry["args"][-2] == "agent"


def test_an_address_cannot_be_set_up(own_agents: Path) -> None:
    result = dragoman("setup", "zed", "--agent", "remote")
    assert (result.returncode, len(result.stderr.splitlines())) == (64, 1)


# Audit


@pytest.fixture
def log(home: Path) -> Path:
    path = home / "state/dragoman/audit.jsonl"
    with AuditLog(path) as audit:
        for number in range(5):
            audit.append({"event": "decision", "decision": "allow", "path": f"/file/{number}"})
    return path


def test_the_log_is_shown_one_line_for_each_record(log: Path) -> None:
    result = dragoman("audit")
    assert result.returncode == 0
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["start", *["decision"] * 5]
    assert dragoman("audit", str(log)).stdout == result.stdout


def test_a_whole_log_verifies(log: Path) -> None:
    result = dragoman("audit", "--verify")
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 1)
    assert "6 records as they were written" in result.stdout


@pytest.mark.parametrize("harm", ["changed", "removed", "moved", "cut"])
def test_a_log_somebody_laid_hands_on_does_not(harm: str, log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    match harm:
        case "changed":
            lines[2] = lines[2].replace("/file/1", "/file/9")
        case "removed":
            del lines[2]
        case "moved":
            lines[2], lines[3] = lines[3], lines[2]
        case "cut":
            del lines[-1]
    log.write_text("".join(lines))
    result = dragoman("audit", "--verify")
    assert result.returncode == 1
    assert "not what was written" in result.stdout
