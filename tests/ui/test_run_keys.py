"""Permission is given with one key, at a real terminal, and never by accident."""

import termios
from pathlib import Path

import pytest
from at_terminal import TESTY, AtTerminal

ASK = ["run", "--agent", TESTY]


def test_every_option_the_agent_offers_has_a_key(tmp_path: Path) -> None:
    keys = {"y": "allow_once", "a": "allow_always", "n": "reject_once", "r": "reject_always"}
    prompt = "\n".join([f"ask {' '.join(keys.values())}"] * len(keys))
    with AtTerminal(*ASK, prompt, cwd=tmp_path) as run:
        for key, chosen in keys.items():
            run.see("Press a key:")
            run.press(key)
            run.see(f"llowed: {chosen}.")
        assert run.end() == 4
    assert "2 denied" in run.screen


def test_who_is_asked_and_says_yes_has_it_done(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press("y")
        run.see("Allowed: allow.")
        assert run.end() == 0


@pytest.mark.parametrize("key", ["\x1b", "\x04"], ids=["escape", "ctrl-d"])
def test_closing_a_question_is_a_no(key: str, tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press(key)
        run.see("No answer, so no")
        assert run.end() == 4


def test_enter_and_whatever_is_no_answer_changes_nothing(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask", cwd=tmp_path) as run:
        run.see("Press a key:")
        for keys in ("\r", "\n", "Y", "x", " ", "yy", "\x1b[A", "\x1by"):
            run.press(keys)
            run.see("Press one of y, n, d:")
        run.press("n")
        run.see("Not allowed: reject.")
        assert run.end() == 4


def test_what_was_typed_ahead_allows_nothing(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "echo ready\nask", cwd=tmp_path) as run:
        run.press("y")  # before there is anything to answer
        run.see("The agent asks for permission")
        run.press("y")  # before it can have been read
        run.see("Press a key:")
        run.press("n")
        run.see("Not allowed: reject.")
        assert run.end() == 4


def test_the_terminal_is_as_it_was_when_the_question_is_over(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask\nwait", cwd=tmp_path) as run:
        before = termios.tcgetattr(run.fd)
        run.see("Press a key:")
        assert termios.tcgetattr(run.fd) != before
        run.press("y")
        run.see("Waiting.")
        assert termios.tcgetattr(run.fd) == before
        run.press("\x03")
        assert run.end() == 130


def test_a_question_is_withdrawn_with_its_turn(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask", cwd=tmp_path) as run:
        before = termios.tcgetattr(run.fd)
        run.see("Press a key:")
        run.press("\x03")
        run.see("withdrawn")
        assert run.end() == 130
        assert termios.tcgetattr(run.fd) == before


def test_denying_the_rest_of_the_turn_asks_nothing_more(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask\nask\nask", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press("d")
        assert run.end() == 4
    assert run.screen.count("Press a key:") == 1
    assert "3 denied" in run.screen


def test_what_is_allowed_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "run echo one\nrun echo one\nrun echo two", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press("s")
        assert "[exit 0]" in run.see("Run a command?")
        run.see("Press a key:")
        run.press("y")
        assert run.end() == 0
    assert run.screen.count("Press a key:") == 2


def test_a_change_is_shown_before_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old words\n")
    with AtTerminal(*ASK, "write a.txt new words", cwd=tmp_path) as run:
        question = run.see("Press a key:")
        assert " - old words" in question and " + new words" in question
        run.press("n")
        run.end()
    assert (tmp_path / "a.txt").read_text() == "old words\n"


def test_a_command_is_shown_as_it_is_with_all_that_hides_in_it(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "run rm \u202efdp.exe\u202c 'a\x1b[2Kb'", cwd=tmp_path) as run:
        question = run.see("Press a key:")
        assert r"'\u{202e}fdp.exe\u{202c}'" in question
        assert r"\u{1b}[2K" in question
        assert "\u202e" not in run.raw
        run.press("n")
        run.end()


def test_nobody_is_asked_whose_stdin_is_elsewhere(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "ask", cwd=tmp_path, stdin="nowhere") as run:
        assert run.end() == 4
    assert "Press a key:" not in run.screen


def test_a_prompt_from_a_pipe_leaves_the_keyboard_to_the_questions(tmp_path: Path) -> None:
    with AtTerminal(*ASK, "-", cwd=tmp_path, stdin="ask") as run:
        run.see("Press a key:")
        run.press("y")
        assert run.end() == 0
