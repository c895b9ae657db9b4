"""Our client drives an agent written with the official SDK: turns, what they say, how they end; extensions."""

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from dragoman_editor import Editor, find_out, play
from sdk import schema
from sdk_agent_process import SdkAgentProcess, sdk_agent

from dragoman import (
    AuthRequired,
    ConnectionClosed,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ResourceNotFound,
    RpcError,
    Transcript,
)
from dragoman import schema as s

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024


# Updates


async def test_every_kind_of_update_the_sdk_knows_arrives_typed_and_in_order(agent: SdkAgentProcess):
    session = await agent.new_session()
    updates, response = await play(session, "updates")
    large = [
        s.SessionConfigSelectOption(value="small", name="Small"),
        s.SessionConfigSelectOption(value="large", name="Large"),
    ]
    assert updates == [
        s.UserMessageChunk(content=s.TextContent(text="you said")),
        s.AgentThoughtChunk(content=s.TextContent(text="I wonder")),
        s.AgentMessageChunk(content=s.TextContent(text="I say")),
        s.ToolCall(
            tool_call_id="call-1",
            title="Edit a.py",
            kind="edit",
            status="pending",
            locations=[s.ToolCallLocation(path="/a.py", line=3)],
            raw_input={"path": "/a.py"},
        ),
        s.ToolCallUpdated(
            tool_call_id="call-1",
            status="completed",
            content=[
                s.Content(content=s.TextContent(text="done")),
                s.Diff(path="/a.py", old_text="old\n", new_text="new\n"),
                s.Terminal(terminal_id="term-1"),
            ],
            locations=[s.ToolCallLocation(path="/a.py"), s.ToolCallLocation(path="/b.py", line=1)],
            raw_output={"lines": 1},
        ),
        s.Plan(
            entries=[
                s.PlanEntry(content="think", priority="high", status="completed"),
                s.PlanEntry(content="act", priority="medium", status="pending"),
            ]
        ),
        s.PlanUpdate(
            plan=s.PlanItems(plan_id="p1", entries=[s.PlanEntry(content="later", priority="low", status="pending")])
        ),
        s.PlanUpdate(plan=s.PlanMarkdown(plan_id="p2", content="# Plan")),
        s.PlanRemoved(plan_id="p1"),
        s.AvailableCommandsUpdate(
            available_commands=[
                s.AvailableCommand(
                    name="test", description="Runs tests", input=s.UnstructuredCommandInput(hint="what to test")
                ),
                s.AvailableCommand(name="help", description="Helps"),
            ]
        ),
        s.CurrentModeUpdate(current_mode_id="code"),
        s.ConfigOptionUpdate(
            config_options=[
                s.SessionConfigSelect(
                    id="model", name="Model", category="model", current_value="large", options=large
                ),
                s.SessionConfigBoolean(id="verbose", name="Verbose", current_value=False),
            ]
        ),
        s.SessionInfoUpdate(title="A title", updated_at="2026-01-02T03:04:05Z"),
        s.UsageUpdate(used=1200, size=200000, cost=s.Cost(amount=0.25, currency="USD")),
    ]
    assert response == s.PromptResponse(
        stop_reason="max_tokens",
        usage=s.Usage(total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5),
    )
    union = get_args(schema.SessionNotification.model_fields["update"].annotation)
    known = {get_args(kind.model_fields["session_update"].annotation)[0] for kind in union}
    assert {type(update).__struct_config__.tag for update in updates} == known


async def test_a_transcript_shows_the_turn_of_an_sdk_agent(agent: SdkAgentProcess):
    session = await agent.new_session()
    updates, response = await play(session, "updates")
    transcript = Transcript([*updates, response])
    assert [(message.speaker, message.text) for message in transcript.messages] == [
        ("user", "you said"),
        ("thought", "I wonder"),
        ("agent", "I say"),
    ]
    (call,) = transcript.tool_calls
    assert (call.title, call.status, len(call.content), call.raw_input) == (
        "Edit a.py",
        "completed",
        3,
        {"path": "/a.py"},
    )
    assert (transcript.mode, transcript.title) == ("code", "A title")


async def test_a_long_stream_arrives_whole_and_in_order(agent: SdkAgentProcess):
    session = await agent.new_session()
    updates, _ = await play(session, "count", to=1000)
    assert [update.content.text for update in updates] == [str(number) for number in range(1000)]


# Content


async def test_every_kind_of_content_comes_back_as_it_was_sent(agent: SdkAgentProcess):
    session = await agent.new_session()
    blocks = [
        s.TextContent(text="naïve ☃ 🙂", annotations=s.Annotations(audience=["user"], priority=0.5)),
        s.ImageContent(data="aW1hZ2U=", mime_type="image/png", uri="file:///i.png"),
        s.AudioContent(data="c291bmQ=", mime_type="audio/wav"),
        s.ResourceLink(
            name="a.py", uri="file:///a.py", title="A", description="d", mime_type="text/x-python", size=12
        ),
        s.EmbeddedResource(
            resource=s.TextResourceContents(uri="file:///t.txt", text="text", mime_type="text/plain")
        ),
        s.EmbeddedResource(resource=s.BlobResourceContents(uri="file:///b.bin", blob="AAEC")),
        s.TextContent(text="marked", meta={"acme/mark": [1, {"deep": None}]}),
    ]
    updates, _ = await play(session, "echo", *blocks)
    assert [update.content for update in updates] == blocks


async def test_a_mebibyte_of_text_goes_both_ways(agent: SdkAgentProcess):
    session = await agent.new_session()
    text = "0123456789abcdef" * (MIB // 16)  # the SDK's agents take lines of any length by themselves
    updates, _ = await play(session, "echo", s.TextContent(text=text))
    assert [update.content.text for update in updates] == [text]


async def test_a_mebibyte_of_escapes_is_read(agent: SdkAgentProcess):
    session = await agent.new_session()
    updates, _ = await play(session, "say", size=MIB)  # the SDK writes six bytes for each of these
    assert [update.content.text for update in updates] == ["é" * MIB]


async def test_meta_travels_with_requests_updates_and_responses(agent: SdkAgentProcess, editor: Editor):
    session = await agent.new_session()
    response = await agent.client.agent.prompt(
        s.PromptRequest(
            session_id=session.id, prompt=[s.TextContent(text="meta")], meta={"traceparent": "00-1", "n": [1]}
        )
    )
    assert response.meta == {"on": "response"}
    marked, found = editor.notifications
    assert marked.meta == {"on": "notification"}
    assert marked.update == s.AgentMessageChunk(content=s.TextContent(text="marked"), meta={"on": "update"})
    assert found.update.content.text == '{"traceparent": "00-1", "n": [1]}'
    opened = await agent.client.agent.new_session(s.NewSessionRequest(cwd="/", mcp_servers=[]))
    assert opened.meta == {"opened": opened.session_id}


# Cancelling


async def test_a_cancelled_turn_still_says_its_last_words(agent: SdkAgentProcess):
    session = await agent.new_session()
    events = []
    async for event in session.prompt("wait"):
        events.append(event)
        if isinstance(event, s.ToolCall):
            session.cancel()
    assert events[1:] == [
        s.AgentMessageChunk(content=s.TextContent(text="stopped")),
        s.PromptResponse(stop_reason="cancelled"),
    ]
    assert Transcript(events).tool_calls[0].status == "cancelled"
    updates, response = await play(session, "echo", s.TextContent(text="alive"))
    assert response.stop_reason == "end_turn"
    assert updates[0].content.text == "alive"


async def test_cancelling_one_session_leaves_another_alone(agent: SdkAgentProcess):
    one, other = await agent.new_session(), await agent.new_session()
    waiting, running = one.prompt("wait"), other.prompt("wait")
    assert isinstance(await anext(waiting), s.ToolCall)
    assert isinstance(await anext(running), s.ToolCall)
    one.cancel()
    assert (await waiting).stop_reason == "cancelled"
    assert await agent.client.agent.request("_peer/echo", {"still": "there"}) == {"still": "there"}
    assert list(other.backlog()) == []
    other.cancel()
    assert (await running).stop_reason == "cancelled"


async def test_closing_a_session_ends_its_turn(agent: SdkAgentProcess):
    session = await agent.new_session()
    turn = session.prompt("wait")
    assert isinstance(await anext(turn), s.ToolCall)
    await session.close()
    assert (await turn).stop_reason == "cancelled"


async def test_an_sdk_agent_ends_by_itself_when_our_client_leaves_in_the_middle_of_a_turn(tmp_path: Path):
    async with sdk_agent(tmp_path) as agent:  # which checks how it ended
        turn = (await agent.new_session()).prompt("wait")
        assert isinstance(await anext(turn), s.ToolCall)


async def test_a_turn_read_after_our_client_left_says_that_the_connection_is_closed(tmp_path: Path):
    async with sdk_agent(tmp_path) as agent:
        turn = (await agent.new_session()).prompt("wait")
        assert isinstance(await anext(turn), s.ToolCall)
    with pytest.raises(ConnectionClosed):
        await turn


# Errors


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-32000, AuthRequired),
        (-32002, ResourceNotFound),
        (-32601, MethodNotFound),
        (-32602, InvalidParams),
        (-32603, InternalError),
        (-31999, RpcError),
    ],
)
async def test_an_error_of_the_sdk_agent_is_raised_by_its_name(agent: SdkAgentProcess, code, error):
    session = await agent.new_session()
    with pytest.raises(RpcError) as raised:
        await play(session, "fail", code=code, message="No luck", data={"hint": [1]})
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.message, raised.value.data) == (code, "No luck", {"hint": [1]})


async def test_an_exception_of_the_sdk_agent_is_an_internal_error(agent: SdkAgentProcess):
    session = await agent.new_session()
    with pytest.raises(InternalError) as raised:
        await play(session, "crash", words="on purpose")
    assert raised.value.data == {"details": "on purpose"}
    complaints = agent.complaints()
    assert complaints.count("Traceback") == 1
    assert complaints.rstrip().endswith("RuntimeError: on purpose")


async def test_what_the_sdk_finds_invalid_is_invalid_params(agent: SdkAgentProcess):
    with pytest.raises(InvalidParams) as raised:
        await agent.client.agent.request("session/prompt", {"sessionId": 1})
    assert {tuple(error["loc"]) for error in raised.value.data["errors"]} == {("sessionId",), ("prompt",)}


async def test_a_method_the_sdk_does_not_know_is_not_found(agent: SdkAgentProcess):
    with pytest.raises(MethodNotFound) as raised:
        await agent.client.agent.request("session/nonsense")
    assert raised.value.data == {"method": "session/nonsense"}


# Extensions


async def test_extension_requests_and_notifications_reach_the_sdk_agent(agent: SdkAgentProcess):
    remote = agent.client.agent
    params = {"list": [1, 2.5, None, "é"], "nested": {"a": {}}}
    assert await remote.request("_peer/echo", params) == params
    remote.notify("_peer/told", params)
    assert (await remote.request("_peer/notes"))["notes"] == [{"method": "peer/told", "params": params}]
    with pytest.raises(MethodNotFound) as raised:
        await remote.request("_peer/unheard_of")
    assert raised.value.data == {"method": "_peer/unheard_of"}


async def test_extension_requests_and_notifications_reach_our_client(agent: SdkAgentProcess, editor: Editor):
    session = await agent.new_session()
    found = await find_out(session, "extend")
    assert found == {"answer": {"asked": [1, None, "two"]}, "unknown": -32601}
    assert editor.notes == [{"number": 7}]


# What the SDK cannot do


async def test_an_abandoned_request_is_only_noise_to_the_sdk_agent(agent: SdkAgentProcess):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.client.agent.request("_peer/never")
    session = await agent.new_session()
    # The SDK knows no $/cancel_request, and logs every notification it does not know with a traceback.
    complaints = agent.complaints()
    assert complaints.count("Traceback") == 1
    assert "Unhandled error while handling notification method=$/cancel_request" in complaints
    updates, _ = await play(session, "echo", s.TextContent(text="alive"))
    assert updates[0].content.text == "alive"
