"""Cursor's dialect, BeamCode's, JetBrains', and forms of version 1 that are no more: understood and spoken."""

import asyncio

import pytest

from dragoman import Transcript
from dragoman import schema as s
from dragoman.testing import RecordingClient

from .line import Line
from .scripted import with_agent

WELCOME = {
    "protocolVersion": 1,
    "agentCapabilities": {},
    "agentInfo": {"name": "cc", "title": "CC", "version": "1"},
}
MODELS = {
    "availableModels": [{"modelId": "small", "name": "Small"}, {"modelId": "large", "name": "Large"}],
    "currentModelId": "small",
}


@pytest.mark.parametrize("dialect", ["legacy", "cursor", "beamcode"])
async def test_models_are_a_config_option_and_set_the_old_way(dialect):
    async with with_agent(RecordingClient(), WELCOME, dialect, opened={"models": MODELS}) as (session, agent, _):
        (option,) = session.config_options
        assert (option.category, option.current_value) == ("model", "small")
        assert [choice.value for choice in option.options] == ["small", "large"]
        setting = asyncio.create_task(session.set_config_option(option.id, "large"))
        request = await agent.called("session/set_model")
        assert request["params"] == {"sessionId": "sess_1", "modelId": "large"}
        agent.reply(request, None)
        (option,) = await setting
        assert option.current_value == "large"


@pytest.mark.parametrize("dialect", ["legacy", "cursor", "beamcode"])
def test_a_client_that_knows_models_alone_is_given_and_sets_them(dialect):
    line = Line(dialect, "v1")
    asked = line.ask("client", "session/new", {"cwd": "/"})
    assert asked["params"]["mcpServers"] == []
    option = {"id": "llm", "name": "LLM", "category": "model", "type": "select", "currentValue": "a"}
    option["options"] = [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}]
    opened = line.answer("agent", asked, {"sessionId": "s", "configOptions": [option]})["result"]
    assert opened["models"] == {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "A"}]}
    asked = line.ask("client", "session/set_model", {"sessionId": "s", "modelId": "a"})
    assert asked["method"] == "session/set_config_option"
    assert asked["params"] == {"sessionId": "s", "configId": "llm", "value": "a"}
    assert line.answer("agent", asked, {"configOptions": [option]})["result"] == {}
    line.say("client", {"id": 9, "method": "session/set_model", "params": {"sessionId": "other", "modelId": "a"}})
    assert line.take("client")["error"]["code"] == -32601


@pytest.mark.parametrize("dialect", ["legacy", "cursor"])
async def test_choices_without_ids_are_given_some(dialect):
    async with with_agent(RecordingClient(permissions="allow"), WELCOME, dialect) as (_, agent, _):
        options = [
            {"kind": "reject_once", "name": "No"},
            {"kind": "allow_once", "name": "Yes"},
            {"kind": "allow_once", "name": "Yes!"},
        ]
        question = {"sessionId": "sess_1", "toolCall": {"toolCallId": "t"}, "options": options}
        answer = await agent.calls("session/request_permission", question)
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "allow_once"}


async def test_what_was_null_is_nothing_and_what_was_called_otherwise_is_understood():
    client = RecordingClient()
    async with with_agent(client, WELCOME, "legacy") as (session, agent, _):
        setting = asyncio.create_task(session.set_mode("ask"))
        agent.reply(await agent.called("session/set_mode"), None)
        await setting
        agent.update(sessionUpdate="current_mode_update", modeId="ask")
        agent.update(sessionUpdate="tool_result", toolCallId="t1", status="completed")
        prompt = session.prompt("go")
        agent.reply(await agent.called("session/prompt"), {"stopReason": "end_turn"})
        transcript = Transcript([event async for event in prompt])
    assert transcript.mode == "ask"
    assert transcript.tool_calls[0].status == "completed"


def test_terminals_may_be_listed_and_servers_may_have_a_type():
    line = Line("legacy", "legacy")
    offers = {"terminal": {"create": True, "output": True}}
    line.ask("client", "initialize", {"protocolVersion": 1, "clientCapabilities": offers})
    assert line.canonical[0]["params"]["clientCapabilities"]["terminal"] is True
    server = {"type": "stdio", "name": "a", "command": "/a", "args": [], "env": {"A": "1"}}
    asked = line.ask("client", "session/new", {"cwd": "/", "mcpServers": [server]})
    assert asked["params"]["mcpServers"] == [
        {"name": "a", "command": "/a", "args": [], "env": [{"name": "A", "value": "1"}]}
    ]


def test_an_agent_that_connects_to_servers_gets_its_connections():
    line = Line("v1", "legacy")
    line.say("agent", {"id": 1, "method": "mcp/connect", "params": {"serverId": "srv"}})
    connection = line.take("agent")["result"]["connectionId"]
    message = {"connectionId": connection, "method": "tools/list", "params": {}}
    asked = line.ask("agent", "mcp/message", message)
    assert asked["params"]["serverId"] == "srv"
    assert asked["params"]["requestId"]
    assert line.answer("client", asked, {"result": {"tools": []}})["result"] == {"tools": []}
    asked = line.ask("agent", "mcp/message", message)
    assert line.answer("client", asked, {"error": {"code": -32601, "message": "no"}})["error"]["code"] == -32601
    line.say("agent", {"id": 8, "method": "mcp/disconnect", "params": {"connectionId": connection}})
    assert line.take("agent")["result"] == {}
    line.say("agent", {"id": 9, "method": "mcp/message", "params": message})
    assert line.take("agent")["error"]["code"] == -33001


def test_a_client_whose_servers_are_connected_to_is_connected_to_once():
    line = Line("legacy", "v1")
    for number, expected in enumerate((["mcp/connect", "mcp/message"], ["mcp/message"])):
        params = {"serverId": "srv", "requestId": str(number), "method": "ping"}
        asked = line.ask("agent", "mcp/message", params)
        for method in expected:
            assert asked["method"] == method
            result = {"connectionId": "c7"} if method == "mcp/connect" else {"pong": True}
            line.say("client", {"id": asked["id"], "result": result})
            if line.at["client"]:
                asked = line.take("client")
        assert asked["params"] == {"connectionId": "c7", "method": "ping"}
        assert line.take("agent")["result"] == {"result": {"pong": True}}


def test_a_proxy_goes_by_either_name():
    line = Line("legacy", "v1")
    asked = line.ask("client", "_proxy/initialize", {"protocolVersion": 1})
    assert asked["method"] == "proxy/initialize"
    asked = line.ask("client", "proxy/initialize", {"protocolVersion": 1})
    assert asked["method"] == "proxy/initialize"
    asked = line.ask("agent", "proxy/successor", {"method": "session/new"})
    assert asked["method"] == "_proxy/successor"


async def test_content_that_says_too_little_is_completed():
    line = Line("cursor", "v1")
    blocks = [
        {"type": "resource", "resource": {"uri": "file:///src/auth.ts"}},
        {"type": "resource_link", "uri": "file:///a/b.c"},
        {"type": "image", "data": "/9j/4AAQ"},
        {"type": "image", "uri": "https://example.com/a.png"},
    ]
    heard = line.ask("client", "session/prompt", {"sessionId": "s", "prompt": blocks})["params"]["prompt"]
    bare = [{name: member for name, member in block.items() if name != "_meta"} for block in heard]
    assert bare == [
        {"type": "resource_link", "uri": "file:///src/auth.ts", "name": "auth.ts"},
        {"type": "resource_link", "uri": "file:///a/b.c", "name": "b.c"},
        {"type": "image", "data": "/9j/4AAQ", "mimeType": "image/jpeg"},
        {"type": "resource_link", "uri": "https://example.com/a.png", "name": "a.png"},
    ]


async def test_tool_content_without_a_type_is_text():
    async with with_agent(RecordingClient(), WELCOME, "cursor") as (session, agent, _):
        prompt = session.prompt("go")
        request = await agent.called("session/prompt")
        content = [{"type": "content", "content": {"text": "done"}}]
        agent.update(
            sessionUpdate="tool_call", toolCallId="t", title="T", kind="read", status="completed", content=content
        )
        agent.reply(request, {"stopReason": "end_turn"})
        first, _ = [event async for event in prompt]
        assert first.content[0].content.text == "done"


def test_a_system_prompt_in_the_margin_is_one_for_an_agent_that_takes_them():
    line = Line("cursor", "v1")
    asked = line.ask("client", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    offers = {"sessionCapabilities": {"systemPrompt": {}}}
    line.answer("agent", asked, {"protocolVersion": 1, "agentCapabilities": offers, "agentInfo": {"name": "a"}})
    asked = line.ask("client", "session/new", {"cwd": "/", "_meta": {"systemPrompt": {"append": "Be brief"}}})
    assert asked["params"]["systemPrompt"] == {"mode": "append", "content": [{"type": "text", "text": "Be brief"}]}
    asked = line.ask("client", "session/new", {"cwd": "/", "_meta": {"systemPrompt": "Be brief"}})
    assert asked["params"]["systemPrompt"]["mode"] == "override"


def test_an_agent_without_a_title_is_given_its_name_for_one():
    line = Line("cursor", "v1")
    asked = line.ask("client", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    welcome = {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}}
    assert line.answer("agent", asked, welcome)["result"]["agentInfo"]["title"] == "a"


# JetBrains


async def test_an_agent_of_the_guide_may_say_all_in_its_answer():
    welcome = {"protocolVersion": 1, "capabilities": {"tools": []}, "serverInfo": {"name": "r", "version": "1"}}
    async with with_agent(RecordingClient(), welcome, "jetbrains") as (session, agent, _):
        assert session.client.agent_info.name == "r"
        prompt = session.prompt("Review")
        request = await agent.called("session/prompt")
        agent.reply(request, {"stopReason": "end_turn", "content": [{"type": "text", "text": "3 issues."}]})
        chunk, response = [event async for event in prompt]
        assert (chunk.content.text, response.stop_reason) == ("3 issues.", "end_turn")
        prompt = session.prompt("Again")
        request = await agent.called("session/prompt")
        agent.update(sessionUpdate="message", role="assistant", content=[{"type": "text", "text": "None."}])
        agent.reply(request, {"stopReason": "end_turn", "content": [{"type": "text", "text": "None."}]})
        said = [event.content.text async for event in prompt if isinstance(event, s.AgentMessageChunk)]
        assert said == ["None."]


def test_beamcode_names_modes_its_own_way():
    line = Line("beamcode", "v1")
    update = {"sessionUpdate": "current_mode_update", "currentModeId": "b"}
    (heard,) = line.note("agent", "session/update", {"sessionId": "s", "update": update})
    assert heard["update"] == {"sessionUpdate": "current_mode_update", "modeId": "b"}
