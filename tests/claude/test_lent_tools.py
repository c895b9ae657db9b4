"""The MCP server `acp`: Claude reads, edits and runs commands through the client, where it lends these."""

import asyncio
import json
import os
from pathlib import Path

import pytest

import dragoman.schema as s
from dragoman.bridges.claude import ClaudeAgent
from dragoman.testing import RecordingClient, pair

from .anthropic_server import Conversation, text, tool
from .clients import Lending, turn


def asked(client: RecordingClient) -> list[s.RequestPermissionRequest]:
    return [request for request in client.requests if isinstance(request, s.RequestPermissionRequest)]


def results(model: Conversation) -> str:
    return json.dumps(model.requests[-1]["messages"])


async def test_an_unsaved_buffer_is_what_is_read_and_edited(model: Conversation, work: Path) -> None:
    file = work / "a.py"
    file.write_text("saved\n")
    client = Lending(files={str(file): "first\nunsaved\nlast\n"})
    model.say(tool("mcp__acp__Read", "t1", file_path=str(file)))
    model.say(tool("mcp__acp__Edit", "t2", file_path=str(file), old_string="unsaved", new_string="edited"))
    model.say(tool("mcp__acp__Write", "t3", file_path=str(work / "b.py"), content="new\n"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "edit")
    names = {each["name"] for each in model.requests[0]["tools"]}
    assert {"mcp__acp__Read", "mcp__acp__Edit", "mcp__acp__Write", "mcp__acp__Bash"} <= names
    assert not {"Read", "Edit", "Write", "Bash"} & names
    assert client.files == {str(file): "first\nedited\nlast\n", str(work / "b.py"): "new\n"}
    assert file.read_text() == "saved\n" and not (work / "b.py").exists()
    assert "2\\tunsaved" in results(model)
    assert (told.call("t1")["title"], told.call("t1")["kind"]) == ("Read a.py", "read")
    edit = told.call("t2")
    assert (edit["title"], edit["kind"], edit["status"]) == ("Edit a.py", "edit", "completed")
    assert edit["content"] == [
        {"type": "diff", "path": str(file), "oldText": "first\nunsaved\nlast\n", "newText": "first\nedited\nlast\n"}
    ]
    assert edit["locations"] == [{"path": str(file), "line": 2}]
    assert [question.tool_call.title for question in asked(client)] == [
        "Edit a.py",
        "Write b.py",
    ]  # reading is free


async def test_commands_run_in_the_client_s_terminals_which_are_released(model: Conversation, work: Path) -> None:
    client = Lending()
    model.say(tool("mcp__acp__Bash", "t1", command="echo hi; pwd; exit 3", description="Say hi"))
    os.mkfifo(work / "never")
    model.say(tool("mcp__acp__Bash", "t2", command="echo begun; read line < never", run_in_background=True))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        told = await turn(session, "run")
        assert len(client.terminals) == 1  # the one in the background
        name = results(model).split("in the background as ")[1].split(".")[0]
        model.say(tool("mcp__acp__BashOutput", "t3", task_id=name))
        model.say(tool("mcp__acp__KillShell", "t4", shell_id=name))
        model.say(tool("mcp__acp__BashOutput", "t5", task_id=name))
        model.say(text("ok"))
        again = await turn(session, "look")
        assert not client.terminals
    created = [request for request in client.requests if isinstance(request, s.CreateTerminalRequest)]
    assert (created[0].command, created[0].args) == ("bash", ["-c", "echo hi; pwd; exit 3"])
    assert created[0].cwd == str(work)
    call = told.call("t1")
    assert (call["title"], call["kind"], call["status"]) == ("echo hi; pwd; exit 3", "execute", "failed")
    assert call["content"] == [{"type": "terminal", "terminalId": "terminal-1"}]
    assert f"hi\\n{work}\\nExit code 3" in results(model)
    assert again.call("t3")["status"] == again.call("t4")["status"] == "completed"
    assert again.call("t5")["status"] == "failed"


@pytest.mark.parametrize(
    ("mode", "questions", "edited", "ran"),
    [
        ("default", 2, True, True),
        ("acceptEdits", 1, True, True),
        ("plan", 1, False, True),
        ("dontAsk", 0, False, False),
        ("bypassPermissions", 0, True, True),
    ],
)
async def test_every_mode_holds_for_tools_through_the_client(
    model: Conversation, work: Path, mode: str, questions: int, edited: bool, ran: bool
) -> None:
    client = Lending(files={str(work / "a"): "x"})
    model.say(
        tool("mcp__acp__Edit", "t1", file_path=str(work / "a"), old_string="x", new_string="y"),
        tool("mcp__acp__Bash", "t2", command="true"),
    )
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        await session.set_mode(mode)
        told = await turn(session, "go")
    assert len(asked(client)) == questions
    assert told.call("t1")["status"] == ("completed" if edited else "failed")
    assert told.call("t2")["status"] == ("completed" if ran else "failed")
    assert client.files == {str(work / "a"): "y" if edited else "x"}


async def test_rules_of_the_settings_and_of_always_hold_for_tools_through_the_client(
    model: Conversation, work: Path
) -> None:
    home = Path(os.environ["CLAUDE_CONFIG_DIR"])
    home.mkdir()
    rules = {"allow": ["Bash(echo:*)", "Edit(src/**)"], "deny": ["Bash(rm:*)", "Read(.env)"]}
    (home / "settings.json").write_text(json.dumps({"permissions": rules}))
    client = Lending(
        permissions=lambda _: "allow-with-updates",
        files={str(work / "src/a"): "x", str(work / ".env"): "SECRET", "/elsewhere/b": "b"},
    )
    calls = [
        ("completed", "mcp__acp__Bash", {"command": "echo hi"}),
        ("failed", "mcp__acp__Bash", {"command": "echo hi && rm -rf /nowhere"}),
        ("completed", "mcp__acp__Edit", {"file_path": str(work / "src/a"), "old_string": "x", "new_string": "y"}),
        ("failed", "mcp__acp__Read", {"file_path": str(work / ".env")}),
        ("completed", "mcp__acp__Bash", {"command": "echo hi > /dev/null"}),  # asked: it writes
        ("completed", "mcp__acp__Bash", {"command": "true"}),  # asked, and allowed for good
        ("completed", "mcp__acp__Bash", {"command": "true"}),
        ("completed", "mcp__acp__Read", {"file_path": "/elsewhere/b"}),  # asked: it is elsewhere
    ]
    for number, (_, name, given) in enumerate(calls):
        model.say(tool(name, f"t{number}", **given))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "go")
    assert [told.call(f"t{n}")["status"] for n in range(len(calls))] == [status for status, _, _ in calls]
    assert [question.tool_call.tool_call_id for question in asked(client)] == ["t4", "t5", "t7"]
    assert "SECRET" not in results(model)


async def test_mistakes_of_the_model_are_told_to_it(model: Conversation, work: Path) -> None:
    file = str(work / "a")
    client = Lending(files={file: "x x"})
    model.say(tool("mcp__acp__Edit", "t1", file_path=file, old_string="x", new_string="y"))
    model.say(tool("mcp__acp__Edit", "t2", file_path=file, old_string="z", new_string="y"))
    model.say(tool("mcp__acp__Read", "t3", file_path=str(work / "nowhere")))
    model.say(tool("mcp__acp__Edit", "t4", file_path=file, old_string="x", new_string="y", replace_all=True))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "go")
    assert [told.call(f"t{n}")["status"] for n in range(1, 5)] == ["failed", "failed", "failed", "completed"]
    assert "occurs 2 times" in results(model) and "does not occur" in results(model)
    assert client.files[file] == "y y"


async def test_cancelling_ends_the_command_and_the_question_of_a_lent_tool(model: Conversation, work: Path) -> None:
    client = Lending()
    started = work / "started"
    os.mkfifo(started)
    os.mkfifo(work / "never")
    model.say(tool("mcp__acp__Bash", "t1", command=f"echo > {started}; read never < {work}/never"))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        prompt = asyncio.ensure_future(turn(session, "run"))
        await asyncio.to_thread(started.read_text)
        session.cancel()
        told = await prompt
        assert told.response.stop_reason == "cancelled"
        assert told.call("t1")["status"] == "failed"
        model.say(text("Here."))
        assert (await turn(session, "again")).text == "Here."
        assert not client.terminals
