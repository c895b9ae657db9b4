"""An agent written with the official SDK asks our client for permissions, files, terminals and answers."""

from pathlib import Path

import pytest
from dragoman_editor import Editor, choose, dismiss, find_out, play, report
from sdk_agent_process import SdkAgentProcess, sdk_agent

from dragoman import Client
from dragoman import schema as s

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Permissions


async def test_a_permission_is_granted(agent: SdkAgentProcess, editor: Editor):
    editor.answer = choose("always")
    session = await agent.new_session()
    found = await find_out(session, "ask")
    assert found == {"outcome": "selected", "optionId": "always", "_meta": None}
    assert editor.asked.get_nowait() == s.RequestPermissionRequest(
        session_id=session.id,
        tool_call=s.ToolCallUpdate(
            tool_call_id="call-2",
            title="Delete everything",
            kind="delete",
            status="pending",
            content=[s.Diff(path="/a.py", old_text="all", new_text="")],
        ),
        options=[
            s.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
            s.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
            s.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
            s.PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
        ],
    )


async def test_a_permission_nobody_can_give_is_refused(agent: SdkAgentProcess, editor: Editor):
    found = await find_out(await agent.new_session(), "ask")
    assert found == {"outcome": "selected", "optionId": "no", "_meta": None}


async def test_a_question_the_user_closes_is_cancelled(agent: SdkAgentProcess, editor: Editor):
    editor.answer = dismiss
    assert await find_out(await agent.new_session(), "ask") == {"outcome": "cancelled"}


async def test_cancelling_a_turn_withdraws_its_open_question(agent: SdkAgentProcess, editor: Editor):
    editor.hesitates = True
    session = await agent.new_session()
    turn = session.prompt("ask")
    await editor.asked.get()
    session.cancel()
    *updates, response = [event async for event in turn]
    assert report(updates) == {"outcome": "cancelled"}
    assert response == s.PromptResponse(stop_reason="cancelled")


# Files


async def test_a_file_is_read_whole(agent: SdkAgentProcess, editor: Editor, tmp_path: Path):
    file = tmp_path / "poem.txt"
    file.write_text("eins\nzwei\ndrei ☃\n")
    found = await find_out(await agent.new_session(), "read", path=str(file))
    assert found == {"content": "eins\nzwei\ndrei ☃\n"}


@pytest.mark.parametrize(
    ("window", "content"),
    [
        ({"line": 2}, "b\nc\nd\n"),
        ({"limit": 2}, "a\nb\n"),
        ({"line": 2, "limit": 2}, "b\nc\n"),
        ({"line": 9}, ""),
        ({"limit": 0}, ""),
    ],
)
async def test_a_part_of_a_file_is_read(agent: SdkAgentProcess, editor: Editor, tmp_path: Path, window, content):
    file = tmp_path / "letters.txt"
    file.write_text("a\nb\nc\nd\n")
    found = await find_out(await agent.new_session(), "read", path=str(file), **window)
    assert found == {"content": content}


async def test_a_missing_file_is_a_resource_not_found(agent: SdkAgentProcess, editor: Editor, tmp_path: Path):
    path = str(tmp_path / "missing.txt")
    found = await find_out(await agent.new_session(), "read", path=path)
    assert found == {"code": -32002, "message": "Resource not found", "data": {"uri": path}}


async def test_a_file_is_written(agent: SdkAgentProcess, editor: Editor, tmp_path: Path):
    file = tmp_path / "new.txt"
    content = "line\r\n\ttab ☃\n"
    found = await find_out(await agent.new_session(), "write", path=str(file), content=content)
    assert found == {"written": str(file)}
    assert file.read_bytes() == content.encode()


async def test_a_client_that_lends_no_files_says_so(tmp_path: Path):
    async with sdk_agent(tmp_path, client=Client()) as agent:
        heard = await agent.client.agent.request("_peer/handshake")
        assert heard["capabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
        assert heard["capabilities"]["terminal"] is False
        session = await agent.new_session()
        found = await find_out(session, "read", path="/etc/passwd")
        assert found == {
            "code": -32601,
            "message": "Method not found",
            "data": {"method": "fs/read_text_file"},
        }


# Terminals


async def test_a_command_runs_to_its_end(agent: SdkAgentProcess, editor: Editor, tmp_path: Path):
    found = await find_out(
        await agent.new_session(),
        "run",
        command="/bin/sh",
        args=["-c", 'echo "$WORD"; pwd; echo oops >&2; exit 3'],
        env={"WORD": "☃"},
        cwd=str(tmp_path),
    )
    ended = {"exitCode": 3, "signal": None, "_meta": None}
    assert found == {
        "ended": ended,
        "output": f"☃\n{tmp_path}\noops\n",
        "truncated": False,
        "exitStatus": ended,
        "_meta": None,
    }


async def test_only_the_end_of_long_output_is_kept(agent: SdkAgentProcess, editor: Editor):
    found = await find_out(
        await agent.new_session(),
        "run",
        command="/bin/sh",
        args=["-c", "printf 123456789"],
        output_byte_limit=4,
    )
    assert (found["output"], found["truncated"]) == ("6789", True)


async def test_a_command_is_killed_and_its_terminal_released(agent: SdkAgentProcess, editor: Editor):
    found = await find_out(
        await agent.new_session(), "kill", command="/bin/sh", args=["-c", "echo ready; exec sleep 60"]
    )
    killed = {"exitCode": None, "signal": "SIGKILL", "_meta": None}
    assert found == {
        "before": {"output": "ready\n", "truncated": False, "exitStatus": None, "_meta": None},
        "ended": killed,
        "after": {"output": "ready\n", "truncated": False, "exitStatus": killed, "_meta": None},
        "released": -32002,
    }


# Questions to the user


async def test_a_form_is_filled_in(agent: SdkAgentProcess, editor: Editor):
    editor.filled_in = {"name": "Ada", "age": 36}
    session = await agent.new_session()
    found = await find_out(session, "fill")
    assert found == {"action": "accept", "content": {"name": "Ada", "age": 36}}
    (form,) = editor.forms
    assert form == s.FormElicitation(
        message="Who are you?",
        session_id=session.id,
        requested_schema=s.ElicitationSchema(
            properties={
                "name": s.StringPropertySchema(title="Name", min_length=1),
                "age": s.IntegerPropertySchema(minimum=0),
            },
            required=["name"],
        ),
    )


async def test_a_form_is_declined(agent: SdkAgentProcess, editor: Editor):
    assert await find_out(await agent.new_session(), "fill") == {"action": "decline"}


async def test_a_page_is_visited_and_done_with(agent: SdkAgentProcess, editor: Editor):
    session = await agent.new_session()
    updates, _ = await play(session, "visit", url="https://login.test/")
    assert report(updates) == {"action": "accept"}
    assert editor.pages == [
        s.UrlElicitation(
            message="Log in there", session_id=session.id, elicitation_id="visit-1", url="https://login.test/"
        )
    ]
    assert editor.completed == ["visit-1"]
