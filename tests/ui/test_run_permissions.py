"""Agents that ask by themselves, in the shapes of real ones: presets answer them, and one yes is for one thing."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from at_terminal import DRAGOMAN, AtTerminal, dragoman
from patience import PATIENCE
from playing import (
    CLAUDE,
    GEMINI,
    KIMI,
    answers,
    ask,
    diff,
    options,
    played,
    player,
    run_in_shell,
    text,
    told,
    updated,
    write,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("one\ntwo\n")
    return tmp_path / "project"


def events(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


FILE = "$CWD/a.txt"
CHANGE = diff(FILE, "one\ntwo\n", "one\n2\n")
EDITS = {
    "claude": ask(
        "toolu_1",
        CLAUDE,
        title="Edit a.txt",
        kind="edit",
        content=[diff(FILE, "two", "2")],
        locations=[{"path": FILE}],
        rawInput={"file_path": FILE, "old_string": "two", "new_string": "2"},
    ),
    "gemini": ask(
        "edit-1",
        GEMINI,
        title="a.txt: two => 2",
        kind="edit",
        status="pending",
        content=[{**CHANGE, "_meta": {"kind": "modify"}}],
        locations=[{"path": FILE}],
    ),
    "kimi": ask(
        "1:call", KIMI, title="Edit", content=[diff(FILE, "two", "2"), text("Requesting approval to edit a.txt")]
    ),
    "goose": ask(
        "call_1",
        options("allow_once:allow_once:Allow once", "reject_once:reject_once:Reject"),
        title="edit",
        kind="edit",
        rawInput={"path": "a.txt", "before": "two", "after": "2"},
    ),
}


@pytest.mark.parametrize("agent", EDITS)
def test_allow_edits_answers_an_agent_that_asks_about_an_edit(agent: str, tmp_path: Path, project: Path) -> None:
    result = played(tmp_path, project, "allow-edits", EDITS[agent], flags=("--json",))
    told = events(result.stdout)
    (decision,) = [event for event in told if event["type"] == "decision"]
    (asked,) = [event for event in told if event["type"] == "permission_request"]
    assert result.returncode == 0
    assert (decision["operation"], decision["decision"], decision["asked"]) == ("claim", "allow", False)
    assert decision["why"] == "the preset allow-edits, on the agent's word"
    assert decision["toolCallId"] == asked["toolCall"]["toolCallId"]
    assert decision["claims"]["changes"][0]["path"] == str(project / "a.txt")
    assert not [event for event in told if event["type"] == "question"]


READ = ask("r", title="Read a.txt", kind="read", locations=[{"path": FILE}], rawInput={"file_path": FILE})


@pytest.mark.parametrize(
    ("preset", "question", "code"),
    [
        ("allow-reads", READ, 0),
        ("allow-reads", EDITS["claude"], 4),
        ("ask", READ, 4),
        ("allow-edits", ask("x", title="ls", kind="execute", rawInput={"command": "ls"}), 4),
        ("allow-edits", ask("x", title="Delete", kind="delete", locations=[{"path": FILE}]), 4),
        ("allow-all", ask("x", title="ls", kind="execute", rawInput={"command": "ls"}), 0),
    ],
    ids=["reads", "reads edit", "ask", "edits run", "edits delete", "all run"],
)
def test_a_preset_answers_as_far_as_it_reaches(
    preset: str, question: dict[str, Any], code: int, tmp_path: Path, project: Path
) -> None:
    assert played(tmp_path, project, preset, question).returncode == code


def test_commands_with_harmless_variables_run_unattended(tmp_path: Path, project: Path) -> None:
    command = run_in_shell("cd '$CWD' && echo $GIT_TERMINAL_PROMPT")
    assert_run(played(tmp_path, project, "allow-all", command))
    argv = json.dumps(["/bin/bash", "-c", f"cd '{project}' && echo $GIT_TERMINAL_PROMPT"])
    assert_run(with_rule(f"argv = {argv}", tmp_path, project, command))


def test_commands_with_dangerous_variables_run_where_a_rule_names_them_or_everything_is_allowed(
    tmp_path: Path, project: Path
) -> None:
    command = run_in_shell("cd '$CWD' && echo $LD_PRELOAD", env={"LD_PRELOAD": "x.so"})
    argv = json.dumps(["/bin/bash", "-c", f"cd '{project}' && echo $LD_PRELOAD"])
    assert played(tmp_path, project, "ask", command).returncode == 4
    assert_run(played(tmp_path, project, "allow-all", command))
    for rule, code in {
        f"argv = {argv}": 4,
        f'argv = {argv}\nenv = {{ LD_PRELOAD = "y.so" }}': 4,
        f'argv = {argv}\nenv = {{ LD_PRELOAD = "x.so" }}': 0,
    }.items():
        assert with_rule(rule, tmp_path, project, command).returncode == code, rule


def assert_run(result: Any) -> None:
    """The command was run, and nobody was asked."""
    assert result.returncode == 0, result.stderr
    assert answers(result.stdout)[1]["exitCode"] == 0


def with_rule(rule: str, tmp_path: Path, project: Path, *steps: dict[str, Any]) -> Any:
    """A run under this rule of the user's alone."""
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "dragoman" / "permissions.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f'[[allow]]\noperation = "terminal_execute"\n{rule}\n')
    return played(tmp_path, project, "ask", *steps)


ONE_EACH = [
    ("claude", write(FILE, "one\n2\n")),
    ("gemini", write(FILE, "one\n2\n")),
    ("goose", write(FILE, "one\n2\n")),
]


@pytest.mark.parametrize(("agent", "operation"), ONE_EACH, ids=[name for name, _ in ONE_EACH])
def test_a_yes_to_the_agent_covers_the_write_it_showed(
    agent: str, operation: dict[str, Any], tmp_path: Path, project: Path
) -> None:
    command = player(tmp_path, EDITS[agent], {"unless_denied": [operation]})
    with AtTerminal("run", "--agent", command, "go", cwd=project) as run:
        asked = run.see("Press a key:")
        assert " - two\n" in asked and " + 2\n" in asked
        run.press("y")
        assert run.end() == 0
    assert run.screen.count("Press a key:") == 1
    assert (project / "a.txt").read_text() == "one\n2\n"


def test_a_yes_to_the_agent_covers_the_command_it_named_and_the_log_has_it(
    tmp_path: Path, project: Path, home: Path
) -> None:
    """As kimi-code does it: what is run is told before, and the question has no more than the name of the tool."""
    command = player(
        tmp_path,
        told("1:b", title="Bash", kind="execute", status="pending", rawInput={"command": "echo hi > said"}),
        ask("1:b", KIMI, title="Bash", content=[text("Requesting approval to Running: echo hi")]),
        {"unless_denied": [run_in_shell("cd '$CWD' && echo hi > said")]},
    )
    with AtTerminal("run", "--agent", command, "go", cwd=project) as run:
        assert "Command: echo hi > said" in run.see("Press a key:")
        run.press("y")
        assert run.end() == 0
    assert run.screen.count("Press a key:") == 1
    assert (project / "said").read_text() == "hi\n"
    log = [json.loads(line) for line in (home / "state" / "dragoman" / "audit.jsonl").read_text().splitlines()]
    claim, done = [record for record in log if record["event"] == "decision"]
    assert claim["claims"]["command"] == "echo hi > said" and claim["asked"]
    assert (claim["tool_call"], done["tool_call"], done["asked"]) == ("1:b", "1:b", False)
    assert done["argv"][-1] == f"cd '{project}' && echo hi > said"


def test_what_happens_inside_questions_and_in_the_agents_own_terminals_is_shown(
    tmp_path: Path, project: Path
) -> None:
    """A change that is in the question alone and stays pending, and commands that the agent runs by itself."""
    steps = [
        ask("e", title="Edit a.txt", kind="edit", content=[CHANGE]),
        told("b", title="Look around", kind="execute", status="in_progress", rawInput={"command": "ls -a | wc -l"},
             _meta={"terminal_info": {"terminal_id": "b", "cwd": "/"}}),
        updated("b", _meta={"terminal_output": {"terminal_id": "b", "data": "fir"}}),
        updated("b", status="failed",
                content=[text("```\nfirst\nsecond\n```"), {"type": "terminal", "terminalId": "b"}],
                _meta={"terminal_output_delta": {"terminal_id": "b", "data": "st\nsecond\n"},
                       "terminal_exit": {"terminal_id": "b", "exit_code": 3, "signal": None}}),
        told("q", title="Count things", kind="execute", status="completed", rawInput={"command": ["wc", "-l"]}),
        told("n", title="Wait", kind="execute", status="completed", rawInput={"command": "sleep 1"},
             _meta={"terminal_info": {"terminal_id": "n"},
                    "terminal_exit": {"terminal_id": "n", "exit_code": None, "signal": None}}),
    ]  # fmt: skip
    steps += [
        told("p", title="Patch b.txt", kind="edit", status="pending", content=[diff("$CWD/b.txt", None, "new")]),
        ask("d", title="Delete a.txt", kind="delete", locations=[{"path": FILE}]),
    ]
    result = played(tmp_path, project, "allow-edits", *steps)
    *lines, _, denied = result.stderr.splitlines()
    assert denied == "1 denied"
    assert lines == [
        "○ Edit a.txt",
        "  a.txt",
        "  @@ -1,2 +1,2 @@",
        "   one",
        "  -two",
        "  +2",
        "▶ Look around",
        "  $ ls -a | wc -l",
        "  │ first",
        "  │ second",
        "    exit 3",
        "✗ Look around",
        "✓ Count things",
        "  $ wc -l",
        "✓ Wait",
        "  $ sleep 1",
        "✗ denied: Delete a.txt (nobody answered)",
        "○ Patch b.txt",
        "  b.txt (new)",
        "  @@ -0,0 +1,1 @@",
        "  +new",
        "  \\ No newline at end of file",
    ]
    told_as_json = played(tmp_path, project, "allow-edits", *steps, flags=("--json",)).stdout
    assert all(words in told_as_json for words in ("terminal_exit", '"data":"st\\nsecond\\n"', "one\\n2\\n"))


@pytest.mark.parametrize("asked", [False, True])
def test_an_agent_that_does_not_ask_is_told_apart_once(asked: bool, tmp_path: Path, project: Path) -> None:
    acts = [told(id, title=id, kind="execute", status="completed") for id in ("ls", "rm")]
    result = played(tmp_path, project, "allow-reads", *([READ] if asked else []), *acts)
    said = [line for line in result.stderr.splitlines() if line.startswith("this agent does not ask")]
    assert [line.partition(":")[2].partition(",")[0] for line in said] == (
        [] if asked else [" it changed files or ran commands by itself 2 times"]
    )


def test_a_turn_that_its_agent_cancels_for_a_denial_is_denied_and_not_interrupted(
    tmp_path: Path, project: Path
) -> None:
    """As codex does it."""
    result = played(tmp_path, project, "ask", EDITS["claude"], {"stop": "cancelled"})
    assert result.returncode == 4
    assert played(tmp_path, project, "ask", {"stop": "cancelled"}).returncode == 130


def test_lines_are_not_glued_where_both_streams_go_to_one_pipe(tmp_path: Path, project: Path) -> None:
    said = {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Well."}}}
    agent = player(tmp_path, said, told("t", title="Think", kind="think", status="completed"))
    command = [*DRAGOMAN, "run", "--agent", agent, "go"]
    both = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=project,
        timeout=PATIENCE,
    )
    assert both.stdout.decode().splitlines() == ["Well.", "✓ Think", "[]"]


def test_a_session_that_can_be_gone_on_with_is_named(tmp_path: Path, project: Path) -> None:
    result = played(tmp_path, project, "ask", capabilities={"loadSession": True})
    assert "to continue this session: --session played" in result.stderr
    assert "--session" not in played(tmp_path, project, "ask").stderr


def test_an_agent_by_name_reads_a_missing_file_as_it_can_bear(tmp_path: Path, project: Path, home: Path) -> None:
    """gemini gives up at any error, and makes a file that it reads as empty."""
    missing = {"call": "fs/read_text_file", "params": {"path": "$CWD/new.txt"}}
    program, *words = player(tmp_path, missing, write("$CWD/new.txt", "made\n")).split()
    config = home / "config" / "dragoman" / "agents.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    launch = f"command = {json.dumps(program)}\nargs = {json.dumps(words)}\n"
    config.write_text(f'[bears]\n{launch}[faints]\n{launch}missing = "empty"\n')
    run = ["run", "--permissions", "allow-edits", "--agent"]
    assert answers(dragoman(*run, "faints", "go", cwd=project).stdout) == [{"content": ""}, {}]
    (project / "new.txt").unlink()
    assert answers(dragoman(*run, "bears", "go", cwd=project).stdout)[0]["code"] == -32002
