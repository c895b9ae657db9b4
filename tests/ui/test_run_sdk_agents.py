"""`dragoman run` drives agents that know nothing of us: they are written with the official SDK."""

from pathlib import Path

import pytest
from at_terminal import AtTerminal, dragoman, peer

pytest.importorskip("acp", reason="the official SDK is not installed (PyPI: agent-client-protocol)")


@pytest.fixture
def greeting(tmp_path: Path) -> Path:
    file = tmp_path / "greeting.txt"
    file.write_text("hello\n")
    return file


def test_an_echo_agent_is_driven() -> None:
    result = dragoman("run", "--agent", peer("sdk_echo"), "hello")
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello\n", "")


def test_a_file_is_linked_for_an_agent_that_takes_no_contents(greeting: Path) -> None:
    result = dragoman("run", "--agent", peer("sdk_echo"), "--file", str(greeting), "hello")
    assert result.stdout == f"hello[greeting.txt]({greeting.as_uri()})\n"


def test_an_agent_that_may_do_everything_does_it(greeting: Path) -> None:
    editing = ["--agent", peer("sdk_editor"), "--permissions", "allow-all"]
    result = dragoman("run", *editing, "good day", cwd=greeting.parent)
    assert result.returncode == 0
    assert result.stdout == "It says now: good day\n"
    assert greeting.read_text() == "good day\n"
    for words in (
        "A greeting is called for.",
        "Plan 0/3",
        "✓ Edit greeting.txt",
        "-hello",
        "+good day",
        "│ good day",
    ):
        assert words in result.stderr


def test_an_agent_that_needs_permission_gets_none_where_nobody_can_be_asked(greeting: Path) -> None:
    result = dragoman(
        "run", "--agent", peer("sdk_editor"), "--permissions", "allow-reads", "good day", cwd=greeting.parent
    )
    assert result.returncode == 4
    assert result.stdout == "Then I leave it.\n"
    assert greeting.read_text() == "hello\n"
    assert "denied: Edit greeting.txt" in result.stderr
    assert "--permissions" in result.stderr


def test_somebody_at_a_terminal_is_asked_once_about_each_thing_that_is_done(greeting: Path) -> None:
    editing = ["run", "--agent", peer("sdk_editor"), "--permissions", "allow-reads"]
    with AtTerminal(*editing, "good day", cwd=greeting.parent) as run:
        run.see("The agent asks for permission")
        asked = run.see("Press a key:")
        assert "  greeting.txt  +1 -1\n  1 - hello\n  1 + good day\n" in asked
        assert asked.count("greeting.txt") == 2  # in the agent's words, and above the change
        assert "newText" not in asked
        run.press("y")  # which is for the very change that the host is then asked for, and for no command
        assert "Write a file?" not in run.see("Run a command?")
        run.see("Press a key:")
        run.press("n")
        assert run.end() == 5  # the agent has no answer to that
    assert greeting.read_text() == "good day\n"


def test_what_the_agent_wants_to_change_is_shown_also_where_the_rest_goes_to_a_program(greeting: Path) -> None:
    editing = ["run", "--json", "--agent", peer("sdk_editor"), "--permissions", "allow-reads"]
    with AtTerminal(*editing, "good day", cwd=greeting.parent) as run:
        run.see("? The agent asks for permission")
        assert "good day" in run.see("Press a key:")
        run.press("n")
        assert run.end() == 4
