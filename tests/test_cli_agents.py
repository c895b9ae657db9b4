"""`dragoman agents`, `setup` and `audit` as a user runs them."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

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
    return subprocess.run([*DRAGOMAN, *arguments], capture_output=True, text=True, timeout=PATIENCE)


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


@pytest.fixture
def bare(home: Path) -> list[str]:
    """Dragoman where only its one dependency is installed."""
    site = home / "site"
    site.mkdir()
    for package in ("dragoman", "msgspec"):
        (site / package).symlink_to(Path(importlib.util.find_spec(package).origin).parent)  # type: ignore
    program = f"import sys; sys.path.insert(0, {str(site)!r}); from dragoman.cli import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", program]


INSTALL = "pip install 'dragoman[coder]'"


@pytest.mark.parametrize(
    ("words", "code"),
    [(["agents", "list"], 0), (["setup", "zed"], 64), (["run", "--agent", "coder", "Rename Tea to Leaf"], 64)],
)
def test_a_missing_extra_is_named(bare: list[str], words: list[str], code: int) -> None:
    result = subprocess.run([*bare, *words], capture_output=True, text=True, timeout=PATIENCE)
    assert INSTALL in result.stdout + result.stderr
    assert result.returncode == code, result.stderr


def test_without_the_extra_a_task_is_refused_and_the_next_step_is_said(bare: list[str], home: Path) -> None:
    (home / "project").mkdir()
    (home / "project" / "tea.py").write_text("class Tea: ...\n")
    words = ["run", "--cwd", str(home / "project"), "--permissions", "allow-reads"]
    for task, code in (("rename the class Tea to Leaf", 2), ("/review", 0)):  # which needs no model
        result = subprocess.run([*bare, *words, task], capture_output=True, text=True, timeout=PATIENCE)
        assert f"so the reviewer answers; to install it: {INSTALL}" in result.stderr
        assert result.returncode == code, result.stderr


def test_without_a_key_a_task_fails_and_the_next_step_is_said(home: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    env = {**kept, "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:9"}
    words = ["run", "--cwd", str(home), "rename the class Tea to Leaf"]
    result = subprocess.run([*DRAGOMAN, *words], capture_output=True, text=True, timeout=PATIENCE, env=env)
    assert result.returncode == 5
    (said,) = [line for line in result.stderr.splitlines() if "no language model can do this" in line]
    assert "Run `dragoman agent coder --login`" in said and "`export ANTHROPIC_API_KEY=…`" in said
    assert "Traceback" not in result.stderr


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
    assert "not found" in lines["gemini"] and "not found" in lines["claude-npm"]
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


def test_a_secret_in_an_agents_command_or_address_is_not_shown(own_agents: Path) -> None:
    own_agents.write_text(
        '[typed]\ncommand = "x"\nargs = ["--api-key", "hunter2-Zq9", "--acp"]\n'
        '[there]\nurl = "wss://ann:hunter2-Zq9@example.com/acp?access_token=hunter2-Zq9"\n'
    )
    shown = [dragoman("agents", *words).stdout for words in (["list"], ["show", "typed"], ["show", "there"])]
    assert not [text for text in shown if "hunter2" in text]
    assert "--api-key" in shown[1] and "--acp" in shown[1] and "example.com/acp" in shown[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["agents"], "required: COMMAND"),
        (["agents", "frobnicate"], "there is no 'frobnicate'; choose from: list, show"),
        (["agents", "show"], "required: NAME"),
        (["agents", "show", "nobody"], "there is no agent 'nobody'; see dragoman agents list"),
        (["setup"], "required: EDITOR"),
        (["setup", "ed"], "there is no 'ed'; did you mean 'zed'?"),
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
    return subprocess.run(command, input=hello, capture_output=True, text=True, timeout=PATIENCE, env=bare).stdout


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


@pytest.mark.parametrize(
    ("editor", "escaped"), [("neovim", r'"a\013\027b\000c\010d"'), ("emacs", r'"a\015\033b\000c\012d"')]
)
def test_control_characters_are_written_in_the_editors_own_way(editor: str, escaped: str, own_agents: Path) -> None:
    own_agents.write_text('[odd]\ncommand = "/bin/odd"\nargs = ["a\\r\\u001bb\\u0000c\\nd"]\n')
    result = dragoman("setup", editor, "--agent", "odd")
    assert escaped in result.stdout
    assert result.stdout.replace("\n", "").isprintable()


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
