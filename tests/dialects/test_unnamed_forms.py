"""Forms of early 2026 that version 1 has no other meaning for: understood one by one, though nobody named them."""

import asyncio

import pytest

from dragoman import schema as s
from dragoman.testing import RecordingClient, Testy, raw

from .scripted import with_agent

GREETING = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}}


async def test_a_session_is_opened_without_a_word_about_servers():
    async with raw(Testy) as wire:
        await wire.request("initialize", GREETING)
        assert "sessionId" in (await wire.request("session/new", {"cwd": "/"}))["result"]
        broken = await wire.request("session/new", {"cwd": "/", "mcpServers": "none"})
        assert broken["error"]["code"] == -32602


async def test_a_model_is_chosen_by_the_call_there_was_for_it():
    async with raw(Testy) as wire:
        await wire.request("initialize", GREETING)
        id = (await wire.request("session/new", {"cwd": "/"}))["result"]["sessionId"]
        assert (await wire.request("session/set_model", {"sessionId": id, "modelId": "large"}))["result"] == {}
        bad = await wire.request("session/set_model", {"sessionId": id, "modelId": "none"})
        assert bad["error"]["code"] == -32602
        asked = wire.ask("session/prompt", {"sessionId": id, "prompt": [{"type": "text", "text": "settings"}]})
        said = ""
        while (message := await wire.receive()).get("id") != asked:
            update = message["params"]["update"]
            said += update["content"]["text"] if update["sessionUpdate"] == "agent_message_chunk" else ""
        assert '"model": "large"' in said


@pytest.mark.parametrize(
    ("block", "link"),
    [
        ({"type": "resource", "resource": {"uri": "file:///auth.ts"}}, ("file:///auth.ts", "auth.ts")),
        ({"type": "resource_link", "uri": "file:///a/b.md"}, ("file:///a/b.md", "b.md")),
        ({"type": "image", "uri": "file:///a.png"}, ("file:///a.png", "a.png")),
    ],
)
async def test_content_that_says_little_is_a_link(block, link):
    async with raw(Testy) as wire:
        await wire.request("initialize", GREETING)
        id = (await wire.request("session/new", {"cwd": "/"}))["result"]["sessionId"]
        asked = wire.ask("session/prompt", {"sessionId": id, "prompt": [block]})
        said = []
        while (message := await wire.receive()).get("id") != asked:
            update = message["params"]["update"]
            said += [update["content"]] if update["sessionUpdate"] == "agent_message_chunk" else []
        assert [(content["uri"], content["name"]) for content in said] == [link]
        assert message["result"] == {"stopReason": "end_turn"}


async def test_an_agent_that_lists_models_and_gives_choices_no_ids_is_understood():
    models = {"currentModelId": "small", "availableModels": [{"modelId": "small", "name": "S"}]}
    models["availableModels"].append({"modelId": "large", "name": "L"})
    client = RecordingClient()
    async with with_agent(client, {"protocolVersion": 1}, None, opened={"models": models}) as (session, agent, _):
        (option,) = session.config_options
        assert (option.category, option.current_value) == ("model", "small")
        chosen = asyncio.ensure_future(session.set_config_option(option.id, "large"))
        request = await agent.called("session/set_model")
        assert request["params"] == {"sessionId": "sess_1", "modelId": "large"}
        agent.reply(request, {})
        assert [option.current_value for option in await chosen] == ["large"]
        options = [{"kind": "allow_once", "name": "Allow"}, {"kind": "reject_once", "name": "Reject"}]
        call = {"toolCallId": "call_xyz", "title": "Edit", "rawInput": {}}
        asked = {"sessionId": "sess_1", "toolCall": call, "options": options}
        answer = await agent.calls("session/request_permission", asked)
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "allow_once"}
        prompt = session.prompt("go")
        request = await agent.called("session/prompt")
        text = {"type": "content", "content": {"text": "done"}}
        agent.update(sessionUpdate="tool_call_update", toolCallId="call_xyz", status="completed", content=[text])
        agent.update(sessionUpdate="current_mode_update", modeId="plan")
        agent.reply(request, {"stopReason": "end_turn"})
        tool, mode, _ = [event async for event in prompt]
        assert tool.content == [s.Content(content=s.TextContent(text="done", meta=tool.content[0].content.meta))]
        assert mode.current_mode_id == "plan"


@pytest.mark.parametrize(
    ("offers", "info", "is_pharo"),
    [({}, {}, True), ({"terminal": True}, {}, False), ({}, {"title": "Pharo"}, False), ({}, {"name": "Ph"}, False)],
    ids=["as the specification has it", "terminals", "a title, which only version 1 has", "another name"],
)
async def test_a_client_that_calls_itself_pharo_and_has_no_terminals_is_spoken_to_as_one(offers, info, is_pharo):
    async with raw(Testy) as wire:
        hello = {
            "protocolVersion": 1,
            "clientInfo": {"name": "Pharo IDE", "version": "14.0", **info},
            "clientCapabilities": {"fs": {"readTextFile": True}, **offers},
        }
        result = (await wire.request("initialize", hello))["result"]
        assert ("authenticationMethods" in result, "authMethods" in result) == (is_pharo, not is_pharo)
