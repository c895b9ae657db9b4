"""Who decides what Claude may do: the user, the mode, the settings' rules; with the program's own tools."""

import json
import os
from pathlib import Path

import pytest

import dragoman.schema as s
from dragoman.bridges.claude import ClaudeAgent
from dragoman.errors import InvalidParams
from dragoman.testing import RecordingClient, pair

from .anthropic_server import Conversation, text, tool
from .clients import Bare, option_values, said, turn


def asked(client: RecordingClient) -> list[s.RequestPermissionRequest]:
    return [request for request in client.requests if isinstance(request, s.RequestPermissionRequest)]


async def test_the_user_is_shown_the_change_and_may_refuse_allow_or_allow_for_good(
    model: Conversation, work: Path
) -> None:
    answers = iter(["reject", "allow-once", "allow-with-updates"])
    client = Bare(permissions=lambda _: next(answers))
    for number in range(4):
        model.say(tool("Write", f"t{number}", file_path=str(work / f"{number}.txt"), content="x\n"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "write")
    questions = asked(client)
    assert len(questions) == 3  # the fourth is allowed by the third answer
    call = questions[0].tool_call
    assert (call.title, call.kind, call.tool_call_id) == ("Write 0.txt", "edit", "t0")
    assert call.content == [s.Diff(path=str(work / "0.txt"), new_text="x\n")]
    assert [(o.option_id, o.kind) for o in questions[0].options] == [
        ("allow-once", "allow_once"),
        ("allow-with-updates", "allow_always"),
        ("reject", "reject_once"),
    ]
    assert questions[0].options[1].name == "Yes, and allow all edits during this session"
    assert [told.call(f"t{n}")["status"] for n in range(4)] == ["failed", "completed", "completed", "completed"]
    assert "did not allow" in told.call("t0")["content"][0]["content"]["text"]
    assert sorted(os.listdir(work)) == ["1.txt", "2.txt", "3.txt"]
    assert [u.current_mode_id for u in told.of(s.CurrentModeUpdate)] == ["acceptEdits"]


async def test_always_for_a_command_is_a_rule_in_the_settings_of_the_project(
    model: Conversation, work: Path
) -> None:
    client = Bare(permissions=lambda _: "allow-with-updates")
    model.say(tool("Bash", "t1", command="mkdir -p one"))
    model.say(tool("Bash", "t2", command="mkdir -p one"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        await turn(await client.new_session(work), "run")
    (question,) = asked(client)
    assert "mkdir" in question.options[1].name
    settings = json.loads((work / ".claude" / "settings.local.json").read_text())
    assert any("mkdir" in rule for rule in settings["permissions"]["allow"])


@pytest.mark.parametrize(
    ("mode", "questions", "written"),
    [
        ("default", 2, {"a.txt", "b.txt"}),
        ("acceptEdits", 1, {"a.txt", "b.txt"}),
        ("plan", 1, set()),
        ("dontAsk", 0, set()),
        ("bypassPermissions", 0, {"a.txt", "b.txt"}),
    ],
)
async def test_each_mode_asks_as_much_as_it_says(
    model: Conversation, work: Path, mode: str, questions: int, written: set[str]
) -> None:
    model.say(
        tool("Write", "t1", file_path=str(work / "a.txt"), content="x"),
        tool("Bash", "t2", command="python3 -c \"open('b.txt', 'w')\""),
    )
    model.say(text("ok"))
    client = Bare(permissions="reject" if mode == "plan" else "allow")
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        await session.set_mode(mode)
        told = await turn(session, "go")
    assert len(asked(client)) == questions
    assert {name for name in os.listdir(work) if name.endswith(".txt")} == written
    states = {told.call("t1")["status"], told.call("t2")["status"]}
    assert states == ({"completed"} if written else {"failed"})


async def test_rules_of_the_settings_files_decide_before_anybody_is_asked(model: Conversation, work: Path) -> None:
    home = Path(os.environ["CLAUDE_CONFIG_DIR"])
    home.mkdir()
    rules = {"allow": ["Bash(mkdir made)"], "deny": ["Bash(rm:*)"], "ask": ["Write(asked.txt)"]}
    (home / "settings.json").write_text(json.dumps({"permissions": {**rules, "defaultMode": "acceptEdits"}}))
    model.say(
        tool("Bash", "t1", command="mkdir made"),
        tool("Bash", "t2", command="rm -rf made"),
        tool("Write", "t3", file_path=str(work / "free.txt"), content="x"),
    )
    model.say(text("ok"))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        assert session.modes and session.modes.current_mode_id == "acceptEdits"
        told = await turn(session, "go")
    assert not asked(client)
    assert [told.call(f"t{n}")["status"] for n in (1, 2, 3)] == ["completed", "failed", "completed"]
    assert "denied" in told.call("t2")["content"][0]["content"]["text"]


async def test_a_repository_cannot_raise_the_mode_or_allow_itself_anything(model: Conversation, work: Path) -> None:
    (work / ".claude").mkdir()
    rules = {"defaultMode": "bypassPermissions", "allow": ["Write", "Bash"]}
    (work / ".claude" / "settings.json").write_text(json.dumps({"permissions": rules}))
    client = Bare(permissions="reject")
    model.say(tool("Write", "t1", file_path=str(work / "a.txt"), content="x"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        assert session.modes and session.modes.current_mode_id == "default"
        await turn(session, "go")
    assert len(asked(client)) == 1 and not (work / "a.txt").exists()


@pytest.mark.parametrize(
    ("answer", "mode"),
    [("exit-plan-accept-edits", "acceptEdits"), ("exit-plan-default", "default"), ("reject", "plan")],
)
async def test_leaving_plan_mode_is_a_question_that_shows_the_plan_and_chooses_the_mode(
    model: Conversation, work: Path, answer: str, mode: str
) -> None:
    client = Bare(permissions=lambda _: answer)
    model.say(tool("EnterPlanMode", "t0"))
    model.say(tool("ExitPlanMode", "t1", plan="# The plan\n\n1. Do it"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        told = await turn(session, "plan")
    (question,) = asked(client)
    assert (question.tool_call.kind, question.tool_call.title) == ("switch_mode", "Ready to code?")
    assert question.tool_call.content == [s.Content(content=s.TextContent(text="# The plan\n\n1. Do it"))]
    assert question.options[-1].kind == "reject_once"
    modes = [update.current_mode_id for update in told.of(s.CurrentModeUpdate)]
    assert modes == (["plan"] if mode == "plan" else ["plan", mode])
    changed = [dict(option_values(update.config_options))["mode"] for update in told.of(s.ConfigOptionUpdate)]
    assert changed == modes
    assert told.call("t1")["status"] == ("failed" if mode == "plan" else "completed")


async def test_a_question_with_choices_is_a_form(model: Conversation, work: Path) -> None:
    client = Bare(form={"question_0": "B", "question_1_custom": "my own"})
    questions = [
        {"question": "Which?", "header": "W", "multiSelect": False, "options": [{"label": "A"}, {"label": "B"}]},
        {"question": "And?", "header": "X", "multiSelect": True, "options": [{"label": "C"}, {"label": "D"}]},
    ]
    for question in questions:
        for option in question["options"]:  # type: ignore[attr-defined]
            option["description"] = "d"
    model.say(tool("AskUserQuestion", "t1", questions=questions))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "ask me")
    assert told.call("t1")["status"] == "completed"
    answer = json.dumps(model.requests[-1]["messages"][-1])
    assert "B" in answer and "my own" in answer


async def test_modes_models_and_efforts_are_options_and_wrong_values_are_refused(
    model: Conversation, work: Path
) -> None:
    model.say(text("ok"))
    client = Bare()
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        values = dict(option_values(session.config_options or ()))
        assert values == {"mode": "default", "model": "default", "effort": "default"}
        assert session.modes
        ids = [mode.id for mode in session.modes.available_modes]
        assert ids == ["auto", "default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
        await session.set_config_option("model", "claude-sonnet-5-5")
        await session.set_config_option("effort", "high")
        await session.set_config_option("mode", "acceptEdits")
        values = dict(option_values(session.config_options or ()))
        assert values == {"mode": "acceptEdits", "model": "sonnet", "effort": "high"}
        for option, value in (
            ("model", "no-such-model"),
            ("effort", "enormous"),
            ("mode", "wild"),
            ("colour", "red"),
        ):
            with pytest.raises(InvalidParams):
                await session.set_config_option(option, value)
        with pytest.raises(InvalidParams):
            await session.set_mode("wild")
        await client.agent.request("session/set_model", {"sessionId": session.id, "modelId": "opus"})
        await session.set_config_option("model", "sonnet")
        await turn(session, "hi")
        await session.set_config_option("model", "opus")
        await turn(session, "again")
    assert said(u.update for u in client.updates if isinstance(u.update, s.AgentMessageChunk)) == "okok"
    request = model.requests[0]
    assert request["model"] == "claude-sonnet-5-5"
    assert "high" in json.dumps(request.get("output_config") or request["messages"][-1])
