"""Our agent asks the official SDK's client for permissions, files, terminals and answers."""

import asyncio
import json
from pathlib import Path

from command_runner import CommandRunner
from sdk import acp, schema
from sdk_editor import CAPABILITIES, SdkEditor, dragoman_agent

CANCEL_REQUEST = "Unhandled error while handling notification method=$/cancel_request"


class Forgetful(acp.Client):
    """What the SDK's own base class answers: null, for everything its author did not write."""

    def __init__(self) -> None:
        self.terminals = CommandRunner()
        self.updates = []
        self.news = asyncio.Event()

    until = SdkEditor.until

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)
        self.news.set()


# Permissions


async def test_what_the_user_decides_reaches_our_agent(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        for choice, allowed, status in (
            ("yes", True, "completed"),
            ("always", True, "completed"),
            ("no", False, "failed"),
            ("never", False, "failed"),
            (None, False, "failed"),
        ):
            agent.editor.choice = choice
            updates, _ = await agent.play("ask")
            assert json.loads(updates[-1].content.text) == {"allowed": allowed, "option": choice}
            assert updates[-2].status == status


async def test_our_agent_shows_the_user_what_it_asks_for(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        await agent.play("ask")
        call, options = agent.editor.asked.get_nowait()
    assert call == schema.ToolCallUpdate(
        tool_call_id="call-2",
        title="Delete everything",
        kind="delete",
        status="pending",
        content=[acp.tool_diff_content("/a.py", "", "all")],
    )
    assert [(option.option_id, option.kind) for option in options] == [
        ("yes", "allow_once"),
        ("always", "allow_always"),
        ("no", "reject_once"),
        ("never", "reject_always"),
    ]


async def test_an_option_that_was_never_offered_allows_nothing(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        agent.editor.choice = "whatever"
        assert await agent.find_out("ask") == {"allowed": False, "option": None}


async def test_a_client_that_forgot_to_answer_permissions_allows_nothing(tmp_path: Path):
    async with dragoman_agent(tmp_path, editor=Forgetful()) as agent:
        updates, _ = await agent.play("ask")
        assert json.loads(updates[-1].content.text) == {"error": "RemoteProtocolError"}
        assert updates[-2].status == "failed"


async def test_a_turn_cancelled_at_an_open_question_ends_cancelled(tmp_path: Path, complaints):
    async with dragoman_agent(tmp_path) as agent:
        agent.editor.hesitates = True
        turn = asyncio.create_task(agent.play("ask"))
        await agent.editor.asked.get()
        await agent.connection.cancel(agent.opened.session_id)
        updates, response = await turn
        assert response.stop_reason == "cancelled"
        assert updates[-1].status == "failed"
        # Our agent tells the client that the question is void; the SDK does not know the notification that says so.
        complaints.expect(CANCEL_REQUEST)
        updates, response = await agent.play("echo", acp.text_block("alive"))
        assert updates[0].content.text == "alive"


# Files


async def test_our_agent_reads_a_file_whole(tmp_path: Path):
    file = tmp_path / "poem.txt"
    file.write_text("eins\nzwei\ndrei ☃\n")
    async with dragoman_agent(tmp_path) as agent:
        assert await agent.find_out("read", path="poem.txt") == {"content": "eins\nzwei\ndrei ☃\n"}


async def test_our_agent_reads_a_part_of_a_file(tmp_path: Path):
    (tmp_path / "letters.txt").write_text("a\nb\nc\nd\n")
    async with dragoman_agent(tmp_path) as agent:
        for window, content in (
            ({"line": 2}, "b\nc\nd\n"),
            ({"limit": 2}, "a\nb\n"),
            ({"line": 2, "limit": 2}, "b\nc\n"),
            ({"line": 9}, ""),
            ({"limit": 0}, ""),
        ):
            assert await agent.find_out("read", path="letters.txt", **window) == {"content": content}


async def test_our_agent_learns_that_a_file_is_missing(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        found = await agent.find_out("read", path="missing.txt")
    uri = str(tmp_path / "missing.txt")
    assert found == {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}


async def test_our_agent_writes_a_file(tmp_path: Path):
    content = "line\r\n\ttab ☃\n"
    async with dragoman_agent(tmp_path) as agent:
        # The SDK's handler returns nothing, so the answer is null.
        assert await agent.find_out("write", path="new.txt", content=content) == {"written": "new.txt"}
    assert (tmp_path / "new.txt").read_bytes() == content.encode()


async def test_a_client_that_lends_no_files_is_not_asked_for_them(tmp_path: Path):
    async with dragoman_agent(tmp_path, capabilities=schema.ClientCapabilities()) as agent:
        assert await agent.find_out("read", path="poem.txt") == {"error": "NotOffered"}
        assert not [event for event in agent.frames if str(event.message.get("method")).startswith("fs/")]


async def test_null_for_the_content_of_a_file_is_the_clients_error(tmp_path: Path):
    async with dragoman_agent(tmp_path, editor=Forgetful()) as agent:
        assert await agent.find_out("read", path="poem.txt") == {"error": "RemoteProtocolError"}


# Terminals


async def test_our_agent_runs_a_command_to_its_end(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        (tmp_path / "folder").mkdir()
        updates, _ = await agent.play(
            "run",
            command="/bin/sh",
            args=["-c", 'echo "$WORD"; pwd; echo oops >&2; exit 3'],
            env={"WORD": "☃"},
            cwd="folder",
        )
        found = json.loads(updates[-1].content.text)
        assert found == {
            "terminal": "terminal-1",
            "ended": {"exitCode": 3},
            "output": {
                "output": f"☃\n{tmp_path}/folder\noops\n",
                "truncated": False,
                "exitStatus": {"exitCode": 3},
            },
        }
        shown = [update.content for update in updates if update.session_update == "tool_call_update"]
        assert [acp.tool_terminal_ref("terminal-1")] in shown
        assert len(agent.editor.terminals) == 0


async def test_our_agent_gets_only_the_end_of_long_output(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        found = await agent.find_out("run", command="/bin/sh", args=["-c", "printf 123456789"], output_byte_limit=4)
    assert (found["output"]["output"], found["output"]["truncated"]) == ("6789", True)


async def test_our_agent_kills_a_command_and_releases_its_terminal(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        found = await agent.find_out("kill", command="/bin/sh", args=["-c", "echo ready; exec sleep 60"])
    assert found == {
        "before": {"output": "ready\n", "truncated": False},
        "ended": {"signal": "SIGKILL"},
        "after": {"output": "ready\n", "truncated": False, "exitStatus": {"signal": "SIGKILL"}},
        "released": -32002,
    }


async def test_a_cancelled_turn_gives_its_terminal_back(tmp_path: Path, complaints):
    async with dragoman_agent(tmp_path) as agent:
        turn = asyncio.create_task(agent.play("run", command="/bin/sleep", args=["60"]))
        await agent.editor.until(lambda: agent.editor.updates[-1].session_update == "tool_call_update")
        assert len(agent.editor.terminals) == 1
        await agent.connection.cancel(agent.opened.session_id)
        _, response = await turn
        assert response.stop_reason == "cancelled"
        assert len(agent.editor.terminals) == 0
        complaints.expect(CANCEL_REQUEST)  # of the wait for the command's end


# Questions to the user


async def test_our_agent_has_a_form_filled_in(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        agent.editor.filled_in = {"name": "Ada", "age": 36}
        assert await agent.find_out("fill") == {"name": "Ada", "age": 36}
        ((message, mode),) = agent.editor.questions
    assert message == "Who are you?"
    assert mode == schema.ElicitationFormSessionMode(
        session_id=agent.opened.session_id,
        requested_schema=schema.ElicitationSchema(
            type="object",
            properties={
                "name": schema.ElicitationStringPropertySchema(type="string", title="Name", min_length=1),
                "age": schema.ElicitationIntegerPropertySchema(type="integer", minimum=0),
            },
            required=["name"],
        ),
    )


async def test_our_agent_takes_no_for_an_answer(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        assert await agent.find_out("fill") is None


async def test_our_agent_sends_the_user_to_a_page(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        assert await agent.find_out("visit", url="https://login.test/") is True
        ((message, mode),) = agent.editor.questions
        assert (message, str(mode.url), mode.elicitation_id) == ("Log in there", "https://login.test/", "visit-1")
        assert agent.editor.completed == ["visit-1"]


async def test_a_client_that_shows_no_forms_is_not_asked_to(tmp_path: Path):
    capabilities = CAPABILITIES.model_copy(update={"elicitation": None})
    async with dragoman_agent(tmp_path, capabilities=capabilities) as agent:
        assert await agent.find_out("fill") == {"error": "NotOffered"}
        assert agent.editor.questions == []
