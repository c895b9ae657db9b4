"""`--json`: everything that happens, one line each, as docs/programs/run.md describes it."""

import json
from pathlib import Path
from typing import Any

from at_terminal import TESTY, AtTerminal, dragoman


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_is_an_event_and_the_last_one_the_result(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--json", "everything unknown\nspend", cwd=tmp_path)
    first, *updates, last = events(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert first == {
        "type": "session",
        "sessionId": first["sessionId"],
        "cwd": str(tmp_path),
        "agent": {"name": "testy", "version": "1.0", "title": "Testy"},
    }
    *updates, remark = updates
    assert (remark["type"], remark["text"].partition(":")[0]) == ("remark", "this agent does not ask")
    assert {event["type"] for event in updates} == {"update"}
    assert {event["sessionId"] for event in updates} == {first["sessionId"]}
    kinds = [event["update"]["sessionUpdate"] for event in updates]
    assert {"agent_message_chunk", "agent_thought_chunk", "tool_call", "plan", "usage_update"} <= set(kinds)
    assert "_testy/unheard_of" in kinds  # also what no version knows
    assert last == {
        "type": "result",
        "exitCode": 0,
        "stopReason": "end_turn",
        "usage": {"totalTokens": 30, "inputTokens": 10, "outputTokens": 20, "thoughtTokens": 5},
        "denied": 0,
    }


def test_a_question_nobody_can_answer_and_the_decision_are_told(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--json", "ask", cwd=tmp_path)
    told = {event["type"]: event for event in events(result.stdout)}
    assert told["question"]["title"] == "The agent asks for permission"
    assert told["question"]["toolCallId"]
    assert [option["allows"] for option in told["question"]["options"]] == [True, False, False]
    assert told["decision"]["operation"] == "claim"
    assert (told["decision"]["decision"], told["decision"]["asked"]) == ("deny", False)
    assert (told["result"]["exitCode"], told["result"]["denied"]) == (4, 1) and result.returncode == 4
    assert "--permissions" in told["remark"]["text"]


def test_what_a_command_prints_is_told_as_it_comes(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--json", "--permissions", "allow-all", "run echo hi", cwd=tmp_path)
    told = [event for event in events(result.stdout) if event["type"] not in ("session", "update", "result")]
    assert [event["type"] for event in told] == ["decision", "terminal", "output", "terminal_exit"]
    decision, terminal, output, ended = told
    assert (decision["decision"], decision["argv"]) == ("allow", ["echo", "hi"])
    assert terminal["command"] == "echo hi"
    assert (output["terminalId"], output["text"]) == (terminal["terminalId"], "hi\n")
    assert (ended["terminalId"], ended["exitStatus"]) == (terminal["terminalId"], {"exitCode": 0})


def test_a_failure_is_a_result_too(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--json", "crash 3", cwd=tmp_path)
    *_, last = events(result.stdout)
    assert (last["type"], last["exitCode"]) == ("result", 5)
    assert "exited with status 3" in last["error"]
    assert result.stderr.startswith("dragoman: the agent exited with status 3")


def test_a_secret_in_a_command_is_not_told_by_us(tmp_path: Path) -> None:
    secret = "sk-0123456789abcdef0123456789"
    result = dragoman("run", "--agent", TESTY, "--json", f"run curl -H {secret}", cwd=tmp_path)
    ours = [event for event in events(result.stdout) if event["type"] in ("question", "decision")]
    assert len(ours) == 2
    assert secret not in json.dumps(ours)


def test_somebody_at_the_terminal_is_asked_all_the_same(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "--json", "ask", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press("y")
        assert run.end() == 0
    decisions = [json.loads(line) for line in run.screen.splitlines() if line.startswith('{"type":"decision"')]
    assert [decision["decision"] for decision in decisions] == ["allow"]
