"""The official SDK's client drives our agent: turns, what they say, how they end; extensions."""

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from sdk import acp, schema
from sdk_editor import dragoman_agent

MIB = 1024 * 1024


# Updates


async def test_the_sdk_client_gets_every_kind_of_update_it_knows(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        updates, response = await agent.play("updates")
        union = get_args(schema.SessionNotification.model_fields["update"].annotation)
        assert {type(update) for update in updates} == set(union)
        told = [
            update.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"message_id"})
            for update in updates
        ]
        id = updates[3].tool_call_id
        text = {"type": "content", "content": {"type": "text", "text": "done"}}
        diff = {"type": "diff", "path": "/a.py", "oldText": "old\n", "newText": "new\n"}
        terminal = {"type": "terminal", "terminalId": "term-1"}
        later = {"content": "later", "priority": "low", "status": "pending"}
        changed = {"sessionUpdate": "tool_call_update", "toolCallId": id}
        assert told == [
            {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "you said"}},
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "I wonder"}},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "I say"}},
            {
                "sessionUpdate": "tool_call",
                "toolCallId": id,
                "title": "Edit a.py",
                "kind": "edit",
                "locations": [{"path": "/a.py", "line": 3}],
                "rawInput": {"path": "/a.py"},
            },
            {**changed, "status": "in_progress"},
            {**changed, "content": [text]},
            {**changed, "content": [text, diff]},
            {**changed, "content": [text, diff, terminal]},
            {
                **changed,
                "locations": [{"path": "/a.py"}, {"path": "/b.py", "line": 1}],
                "rawOutput": {"lines": 1},
            },
            {**changed, "status": "completed"},
            {
                "sessionUpdate": "plan",
                "entries": [
                    {"content": "think", "priority": "high", "status": "completed"},
                    {"content": "act", "priority": "medium", "status": "pending"},
                ],
            },
            {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p1", "entries": [later]}},
            {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p2", "uri": "file:///plan.md"}},
            {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p3", "content": "# Plan"}},
            {"sessionUpdate": "plan_removed", "planId": "p1"},
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [
                    {"name": "test", "description": "Runs tests", "input": {"hint": "what to test"}}
                ],
            },
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
            {
                "sessionUpdate": "config_option_update",
                "configOptions": [
                    option.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for option in agent.opened.config_options
                ],
            },
            {
                "sessionUpdate": "session_info_update",
                "title": "A title",
                "updatedAt": "2026-01-02T03:04:05Z",
            },
            {"sessionUpdate": "session_info_update"},  # a title of null, which clears it
            {
                "sessionUpdate": "usage_update",
                "used": 1200,
                "size": 200000,
                "cost": {"amount": 0.25, "currency": "USD"},
            },
        ]
    assert response == schema.PromptResponse(
        stop_reason="max_tokens",
        usage=schema.Usage(total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5),
    )


async def test_a_thought_and_what_is_said_after_it_are_two_messages(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        updates, _ = await agent.play("updates")
    thought, said = updates[1:3]
    assert thought.message_id and said.message_id
    assert thought.message_id != said.message_id


async def test_a_long_stream_of_our_agent_arrives_whole_and_in_order(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        updates, _ = await agent.play("count", to=1000)
    assert [update.content.text for update in updates] == [str(number) for number in range(1000)]


# Content


async def test_every_kind_of_content_comes_back_to_the_sdk_client_as_it_was_sent(tmp_path: Path):
    marked = acp.text_block("marked")
    marked.field_meta = {"acme/mark": [1, {"deep": None}]}
    noted = acp.text_block("naïve ☃ 🙂")
    noted.annotations = schema.Annotations(audience=["user"], priority=0.5)
    blocks = [
        noted,
        acp.image_block("aW1hZ2U=", "image/png", uri="file:///i.png"),
        acp.audio_block("c291bmQ=", "audio/wav"),
        acp.resource_link_block("a.py", "file:///a.py", mime_type="text/x-python", size=12, title="A"),
        acp.resource_block(acp.embedded_text_resource("file:///t.txt", "text", mime_type="text/plain")),
        acp.resource_block(acp.embedded_blob_resource("file:///b.bin", "AAEC")),
        marked,
    ]
    async with dragoman_agent(tmp_path) as agent:
        updates, response = await agent.play("echo", *blocks)
    assert [update.content for update in updates] == blocks
    assert response.stop_reason == "end_turn"


@pytest.mark.parametrize("limit", [None, 4 * MIB])  # of the SDK's reader: longer lines it takes in pieces
async def test_a_mebibyte_of_text_goes_to_our_agent_and_back(tmp_path: Path, limit: int | None):
    text = "0123456789abcdef" * (MIB // 16)
    async with dragoman_agent(tmp_path, limit=limit) as agent:
        updates, _ = await agent.play("echo", acp.text_block(text))
        assert [update.content.text for update in updates] == [text]
        updates, _ = await agent.play("say", size=MIB)
        assert [update.content.text for update in updates] == ["é" * MIB]


async def test_meta_travels_to_our_agent_and_back(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        agent.editor.metas.clear()
        response = await agent.connection.prompt(
            session_id=agent.opened.session_id, prompt=[acp.text_block("meta")], traceparent="00-1", n=[1]
        )
        assert response.field_meta == {"traceparent": "00-1", "n": [1]}
        marked, found = agent.editor.updates[-2:]
        assert marked.field_meta == {"on": "update"}
        assert agent.editor.metas == [{"on": "notification"}, {}]
        assert found.content.text == '{"traceparent":"00-1","n":[1]}'


# Cancelling


async def test_our_cancelled_turn_still_says_its_last_words(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        before = len(agent.editor.updates)
        turn = asyncio.create_task(agent.play("wait"))
        await agent.editor.until(lambda: len(agent.editor.updates) == before + 2)
        await agent.connection.cancel(agent.opened.session_id)
        updates, response = await turn
        assert response == schema.PromptResponse(stop_reason="cancelled")
        assert [update.session_update for update in updates] == [
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk",
        ]
        assert [update.status for update in updates[1:3]] == ["in_progress", "failed"]
        assert updates[-1].content.text == "stopped"
        updates, response = await agent.play("echo", acp.text_block("alive"))
        assert response.stop_reason == "end_turn"
        assert updates[0].content.text == "alive"


async def test_cancelling_a_session_with_nothing_to_cancel_changes_nothing(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        await agent.connection.cancel(agent.opened.session_id)
        await agent.connection.cancel("unknown")
        updates, response = await agent.play("echo", acp.text_block("alive"))
    assert response.stop_reason == "end_turn"
    assert updates[0].content.text == "alive"


async def test_our_agent_runs_two_sessions_at_once_and_cancels_one(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        other = await agent.new_session()
        waiting = asyncio.create_task(agent.play("wait"))
        await agent.editor.until(
            lambda: any(update.session_update == "tool_call" for update in agent.editor.updates)
        )
        agent.opened, first = other, agent.opened
        updates, _ = await agent.play("echo", acp.text_block("meanwhile"))
        assert updates[-1].content.text == "meanwhile"
        await agent.connection.cancel(other.session_id)
        await agent.connection.ext_method("peer/echo", {})  # behind the cancel, so that it has been handled
        assert not waiting.done()
        await agent.connection.cancel(first.session_id)
        _, response = await waiting
        assert response.stop_reason == "cancelled"


@pytest.mark.parametrize(("verb", "arguments"), [("wait", {}), ("run", {"command": "/bin/sleep", "args": ["60"]})])
async def test_our_agent_ends_by_itself_when_the_sdk_client_leaves_in_the_middle_of_a_turn(
    tmp_path: Path, verb, arguments
):
    async with dragoman_agent(tmp_path) as agent:  # which checks that it ended well, and quietly
        turn = asyncio.gather(agent.play(verb, **arguments), return_exceptions=True)
        await agent.editor.until(lambda: agent.editor.updates[-1].session_update == "tool_call_update")
    (end,) = await turn
    assert isinstance(end, ConnectionError)


# Errors


async def test_an_error_of_our_agent_reaches_the_sdk_client_whole(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        for code in (-32000, -32002, -32601, -32602, -32603, -31999):
            with pytest.raises(acp.RequestError) as raised:
                await agent.play("fail", code=code, message="No luck", data={"hint": [1]})
            assert (raised.value.code, str(raised.value), raised.value.data) == (code, "No luck", {"hint": [1]})


async def test_an_exception_of_our_agent_is_an_internal_error_that_tells_nothing(tmp_path: Path):
    async with dragoman_agent(tmp_path, is_quiet=False) as agent:
        with pytest.raises(acp.RequestError) as raised:
            await agent.play("crash", words="a secret")
        assert raised.value.code == -32603
        assert set(raised.value.data) == {"errorId"}
        assert "a secret" not in str(agent.frames[-1].message)
        updates, _ = await agent.play("echo", acp.text_block("alive"))
        assert updates[0].content.text == "alive"
    complaints = agent.complaints()
    assert complaints.count("Traceback") == 1
    assert raised.value.data["errorId"] in complaints
    assert "RuntimeError: a secret" in complaints


async def test_a_method_our_agent_did_not_write_is_not_found(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        with pytest.raises(acp.RequestError) as raised:
            await agent.connection.ext_method("peer/unheard_of", {})
    assert (raised.value.code, raised.value.data) == (-32601, {"method": "_peer/unheard_of"})


# Extensions


async def test_extensions_of_the_sdk_client_reach_our_agent(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        params = {"list": [1, 2.5, None, "é"], "nested": {"a": {}}}
        assert await agent.connection.ext_method("peer/echo", params) == params
        await agent.connection.ext_notification("peer/unheard_of", params)
        await agent.connection.ext_notification("peer/told", params)
        assert await agent.connection.ext_method("peer/notes", {}) == {"notes": [params]}


async def test_extensions_of_our_agent_reach_the_sdk_client(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        found = await agent.find_out("extend")
    assert found == {"answer": {"asked": [1, None, "two"]}, "unknown": -32601}
    assert agent.editor.notes == [("peer/note", {"number": 7})]
