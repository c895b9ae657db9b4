"""What somebody sees of a turn, and what a pipe gets of it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from at_terminal import DRAGOMAN, TESTY, AtTerminal, dragoman
from emulator import Emulator
from patience import PATIENCE
from playing import ask, diff, player, told

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def test_a_turn_in_a_pipe_is_plain_text(tmp_path: Path) -> None:
    prompt = "thought\nplan\ntool\nfailed_tool\nnotice\nsubagent\nmode\nusage\necho done"
    result = dragoman("run", "--agent", TESTY, prompt, cwd=tmp_path)
    assert result.stdout == "done\n"
    *lines, unasked, going_on = result.stderr.splitlines()
    assert unasked.startswith("this agent does not ask: it changed files or ran commands by itself once")
    assert going_on.startswith("to continue this session: --session ")
    assert lines == [
        "Let me see.",
        "Plan 0/2",
        "  ▶ Look",
        "  ○ Leap",
        "  ✓ Look",
        "  ▶ Leap",
        "▶ Edit a.py:3",
        "  a.py",
        "  @@ -1,1 +1,1 @@",
        "  -a = 1",
        "  +a = 2",
        "✓ Edit a.py, line 3",
        "  Editing.",
        "▶ Read b.py",
        "✗ Read b.py",
        "  No such file.",
        "! Slow today: The model takes its time.",
        "▶ Helper (subagent)",
        "✓ Helper (subagent)",
        "mode: plan",
    ]


def test_every_kind_of_update_can_be_shown(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "everything", cwd=tmp_path) as run:
        assert run.end() == 0
    assert "Traceback" not in run.screen
    assert "1,200 of 200,000 tokens · 0.25 USD" in run.screen


def test_a_terminal_has_colours(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "thought\ntool\nfailed_tool\nplan", cwd=tmp_path) as run:
        assert run.end() == 0
    emulator = Emulator(run.columns)
    emulator.feed(run.raw)
    assert {("L", "2"), ("m", "2"), (".", "2")} <= set(emulator.styled[0])  # a thought
    for coloured in (
        "\x1b[32m✓\x1b[0m Edit a.py, line 3",
        "\x1b[31m✗\x1b[0m Read b.py",
        "\x1b[2m1\x1b[0m \x1b[31m- a = 1\x1b[0m",
        "\x1b[2m1\x1b[0m \x1b[32m+ a = 2\x1b[0m",
    ):
        assert coloured in run.raw


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colours_has_none(env: dict[str, str], tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "thought\ntool\nplan\necho done", cwd=tmp_path, env=env) as run:
        assert run.end() == 0
    assert not COLOUR.search(run.raw)
    assert "done" in run.screen


def test_a_tool_call_that_is_over_takes_one_line(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "failed_tool", cwd=tmp_path) as run:
        assert run.end() == 0
    assert "▶ Read b.py" in run.screen  # while it ran
    assert [line for line in run.seen if "b.py" in line] == ["✗ Read b.py"]


def test_what_the_agent_says_reaches_a_pipe_as_it_is_and_a_terminal_legibly(tmp_path: Path) -> None:
    says = "echo a\x1b[31mb\u202ec"
    assert dragoman("run", "--agent", TESTY, says, cwd=tmp_path).stdout == "a\x1b[31mb\u202ec\n"
    with AtTerminal("run", "--agent", TESTY, says, cwd=tmp_path) as run:
        assert run.end() == 0
    assert r"a\u{1b}[31mb\u{202e}c" in run.screen
    assert "\u202e" not in run.raw


def test_a_message_stays_whole_in_a_pipe_whatever_goes_to_stderr_meanwhile(tmp_path: Path) -> None:
    running = ["run", "--agent", TESTY, "--permissions", "allow-all"]
    result = dragoman(*running, "echo one, \nrun echo hi", cwd=tmp_path)
    assert result.stdout == "one, \nhi\n[exit 0]\n"  # a tool call parts two messages; what it prints does not


def test_what_a_command_prints_is_shown_with_how_it_ended(tmp_path: Path) -> None:
    running = ["run", "--agent", TESTY, "--permissions", "allow-all"]
    result = dragoman(*running, "run sh -c 'printf \"one\\r\\ntwo\\033[1m!\"; exit 3'", cwd=tmp_path)
    assert [line for line in result.stderr.splitlines() if line.startswith("  ")] == [
        "  $ sh -c 'printf \"one\\r\\ntwo\\033[1m!\"; exit 3'",
        "  │ one",
        "  │ two!",
        "    exit 3",
    ]


def test_a_command_that_a_signal_ended_has_no_exit_code(tmp_path: Path) -> None:
    running = ["run", "--agent", TESTY, "--permissions", "allow-all"]
    result = dragoman(*running, "run sh -c 'echo one; kill -9 $$'", cwd=tmp_path)
    assert result.stderr.count("  │ one") == 1 and "    ended by SIGKILL" in result.stderr.splitlines()
    assert "None" not in result.stdout + result.stderr


def test_a_long_change_is_shown_whole_to_whoever_has_to_allow_it(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("".join(f"line {number}\n" for number in range(1000)))
    with AtTerminal("run", "--agent", TESTY, "write long.py short", cwd=tmp_path) as run:
        question = run.see("Press a key:")
        assert [line for line in range(1000) if f" - line {line}\n" not in question] == []
        assert " + short" in question
        run.press("n")
        run.end()


def test_output_that_goes_nowhere_is_no_failure(tmp_path: Path) -> None:
    with open("/dev/null", "w") as nowhere:
        command = [*DRAGOMAN, "run", "--agent", TESTY, "thought\ntool\necho done"]
        assert (
            subprocess.run(command, stdout=nowhere, stderr=nowhere, timeout=PATIENCE, cwd=tmp_path).returncode == 0
        )


MARKDOWN = "# Title\n\n- **bold** `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_markdown_is_drawn_on_a_terminal_and_stays_as_it_is_in_a_pipe(tmp_path: Path) -> None:
    says = {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": MARKDOWN}}}
    agent = player(tmp_path, says)
    assert dragoman("run", "--agent", agent, "go", cwd=tmp_path).stdout.startswith(MARKDOWN)
    with AtTerminal("run", "--agent", agent, "go", cwd=tmp_path) as run:
        assert run.end() == 0
    assert run.seen[:6] == ["Title", "", "• bold code", "", "a  b", "─  ─"]
    with AtTerminal("run", "--agent", agent, "go", cwd=tmp_path, env={"TERM": "dumb"}) as run:
        assert run.end() == 0
    assert run.seen[0] == "# Title"


def test_a_plan_is_drawn_in_its_place_and_written_down_once(tmp_path: Path) -> None:
    def plan(*states: str) -> dict[str, Any]:
        steps = zip(("Look", "Think", "Leap"), states, strict=True)
        entries = [{"content": name, "status": state, "priority": "medium"} for name, state in steps]
        return {"update": {"sessionUpdate": "plan", "entries": entries}}

    steps = [
        plan("in_progress", "pending", "pending"), told("1", title="One", kind="read", status="completed"),
        plan("completed", "in_progress", "pending"), told("2", title="Two", kind="read", status="completed"),
        plan("completed", "completed", "completed"), told("3", title="Three", kind="read", status="completed"),
    ]  # fmt: skip
    with AtTerminal("run", "--agent", player(tmp_path, *steps), "go", cwd=tmp_path) as run:
        assert run.end() == 0
    assert run.seen[:6] == ["✓ One", "✓ Two", "", "Plan 3/3", "  ✓ Look   ✓ Think   ✓ Leap", ""]
    assert sum("Plan" in line for line in run.seen) == 1
    assert "▶ Look" in run.screen and "▶ Think" in run.screen  # live


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_of_a_question_is_wider_than_the_terminal(columns: int, tmp_path: Path) -> None:
    long = "a line of code that is longer than the terminal is wide = " + "x" * 50
    file = tmp_path / "a_directory_of_some_length" / "a_file_with_a_long_name.py"
    title = "Edit a file whose name is rather long"
    call = ask(
        "1", title=title, kind="edit", locations=[{"path": str(file)}], content=[diff(str(file), "a\n", long)]
    )
    with AtTerminal("run", "--agent", player(tmp_path, call), "go", cwd=tmp_path, columns=columns) as run:
        run.see("Press a key:")
        run.press("n")
        run.end()
    words = run.screen[: run.screen.index("Press a key:")]
    assert all(len(line) <= columns for line in words.splitlines())
    joined = "".join(line.strip() for line in words.splitlines())
    assert joined.count("a_file_with_a_long_name.py") == 1  # a path is named once, as seen from the directory
    assert str(tmp_path) not in joined
    assert "x" * 50 in joined  # nothing is left out
