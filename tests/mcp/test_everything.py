"""The reference server with every feature, used by an agent of ten lines, by Testy and by the coder."""

import json
from pathlib import Path
from typing import Any

import pytest
from coder.desk import calls, desk, results, updates
from official import everything, filesystem, needs_servers

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.coder import ScriptedModel, call
from dragoman.coder.context.history import Media, ModelInput, Results, TextPart
from dragoman.mcp import McpFailure, SamplingRequest
from dragoman.mcp.contents import words_of
from dragoman.testing import RecordingClient, Testy, pair

pytestmark = [pytest.mark.usefixtures("nothing_left"), needs_servers]


class Helper(Agent):
    """Calls the tool that a prompt names: `TOOL JSON`."""

    accepts = ("http", "sse", "acp")

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools(sampling=self.sampled) as tools:
            name, _, arguments = turn.text.partition(" ")
            result = await tools.call(turn, name, json.loads(arguments or "{}"))
            self.last = result
            await turn.say(result.text)

    async def sampled(self, request: SamplingRequest) -> str:
        return f"{request.server} asked: {words_of(request.messages[0].content)}"


class Looker(Agent):
    """Runs what a test wants to see of a session's tools."""

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            self.seen = await type(self).look(turn, tools)

    @staticmethod
    async def look(turn: Turn, tools: Any) -> Any:
        raise NotImplementedError


async def used(agent: type[Agent], cwd: Path, *prompts: str, **client: Any) -> tuple[RecordingClient, list[str]]:
    """What an agent with the server says to prompts."""
    recording = RecordingClient(**client)
    said = []
    async with pair(agent, recording) as connected:
        session = await connected.new_session(cwd, mcp_servers=[everything(), filesystem(cwd)])
        for prompt in prompts:
            events = [event async for event in session.prompt(prompt)]
            chunks = [e.content for e in events if isinstance(e, s.AgentMessageChunk)]
            said.append("".join(chunk.text for chunk in chunks if isinstance(chunk, s.TextContent)))
    return recording, said


def titles(client: RecordingClient) -> list[str]:
    return [u.title for u in updates(client) if isinstance(u, s.ToolCallUpdated) and u.title]


async def test_an_agent_of_ten_lines_uses_every_tool(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("in a file")
    form = {"name": "Ada", "check": True}
    client, said = await used(
        Helper,
        tmp_path,
        'echo {"message": "hello"}',
        'get-sum {"a": 2, "b": 3}',
        'trigger-long-running-operation {"duration": 1, "steps": 4}',
        'trigger-sampling-request {"prompt": "why?", "maxTokens": 10}',
        "get-roots-list",
        "get-tiny-image",
        'get-annotated-message {"messageType": "error", "includeImage": true}',
        'get-resource-reference {"resourceType": "Text", "resourceId": 1}',
        'get-resource-links {"count": 2}',
        'get-structured-content {"location": "New York"}',
        "trigger-elicitation-request",
        "toggle-simulated-logging",
        'gzip-file-as-resource {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"}',
        json.dumps({"path": str(tmp_path / "a.txt")}).join(["files/read_text_file ", ""]),
        form=form,
    )
    assert said[0] == "Echo: hello" and "5" in said[1] and "completed" in said[2]
    assert "every asked: Resource trigger-sampling-request context: why?" in said[3]
    assert tmp_path.as_uri() in said[4]
    assert "Error: Operation failed" in said[6] and "Resource" in said[7] and "demo://resource" in said[8]
    assert json.loads(said[9])["temperature"] and "Ada" in said[10] and said[13] == "in a file"
    assert any("(4 of 4)" in title or "of 4" in title for title in titles(client))
    shown = [c for u in updates(client) if isinstance(u, s.ToolCallUpdated) for c in u.content or ()]
    kinds = {type(each.content) for each in shown if isinstance(each, s.Content)}
    assert {s.TextContent, s.ImageContent, s.ResourceLink, s.EmbeddedResource} <= kinds
    (question,) = [request for request in client.requests if isinstance(request, s.FormElicitation)]
    assert question.message.startswith("every: ")
    asked = [r.tool_call.title for r in client.requests if isinstance(r, s.RequestPermissionRequest)]
    assert asked[:2] in (
        ["Start the MCP server every", "Start the MCP server files"],
        ["Start the MCP server files", "Start the MCP server every"],
    )
    assert len(asked) == 2 + 14


async def test_resources_templates_prompts_and_completions_are_content_of_the_protocol(tmp_path: Path) -> None:
    class Reading(Looker):
        @staticmethod
        async def look(turn: Turn, tools: Any) -> Any:
            links, templates, prompts = await tools.resources(), await tools.templates(), tools.prompts()
            text = await tools.read("demo://resource/dynamic/text/1")
            blob = await tools.read("demo://resource/dynamic/blob/1", server="every")
            completed = await tools.complete("every", "completable-prompt", "department", "E")
            message = await tools.prompt("every", "resource-prompt", {"resourceType": "Text", "resourceId": "1"})
            await turn.say(json.dumps([len(links), len(templates), [p.name for p in prompts], completed]))
            for block in (links[0], *text, *blob, *(each.content for each in message)):
                await turn.say(block)

    client, (said,) = await used(Reading, tmp_path, "look")
    links, templates, prompts, completed = json.loads(said.split("]]")[0] + "]]" if "]]" in said else said)
    assert links > 0 and templates >= 2 and completed == ["Engineering"]
    assert {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"} <= set(prompts)
    blocks = [u.content for u in updates(client) if isinstance(u, s.AgentMessageChunk)]
    contents: list[type] = [type(b.resource) for b in blocks if isinstance(b, s.EmbeddedResource)]
    assert contents == [s.TextResourceContents, s.BlobResourceContents, s.TextResourceContents]
    assert any(isinstance(block, s.ResourceLink) for block in blocks)


async def test_prompts_are_slash_commands_of_an_agent_that_asks_for_them(tmp_path: Path) -> None:
    class Commanded(Agent):
        commands = (s.AvailableCommand(name="own", description="Its own"),)

        async def answer(self, turn: Turn) -> None:
            async with turn.session.tools() as tools:
                try:
                    for block in await tools.command(turn) or ():
                        await turn.say(block)
                except McpFailure as exc:
                    await turn.say(str(exc))

    client, said = await used(
        Commanded, tmp_path, "hello", "/mcp:every:args-prompt Paris state=Texas", "/mcp:every:args-prompt"
    )
    listed = [u.available_commands for u in updates(client) if isinstance(u, s.AvailableCommandsUpdate)]
    assert [command.name for command in listed[0]] == ["own"]
    names = {command.name: command for command in listed[-1]}
    assert {"own", "mcp:every:simple-prompt", "mcp:every:args-prompt"} <= set(names)
    assert names["mcp:every:args-prompt"].input == s.UnstructuredCommandInput(hint="city [state]")
    assert said[1] == "What's weather in Paris, Texas?"
    assert said[2] == "args-prompt needs city: write /mcp:every:args-prompt city state"


async def test_testy_uses_it_by_the_methods_of_mcp(tmp_path: Path) -> None:
    _, said = await used(
        Testy,
        tmp_path,
        "mcp every tools/list",
        'mcp every tools/call {"name": "trigger-sampling-request", "arguments": {"prompt": "why?"}}',
        'mcp every resources/read {"uri": "demo://resource/dynamic/text/1"}',
        'mcp every prompts/get {"name": "args-prompt", "arguments": {"city": "Paris"}}',
    )
    assert "trigger-elicitation-request" in {tool["name"] for tool in json.loads(said[0])}
    assert "Testy answers." in said[1]
    assert json.loads(said[2])[0]["resource"]["uri"] == "demo://resource/dynamic/text/1"
    assert "What's weather in Paris?" in said[3]


async def test_the_coder_uses_every_feature(tmp_path: Path) -> None:
    every = "mcp__every__"
    model = ScriptedModel(
        [
            call(f"{every}echo", message="hello"),
            call(f"{every}get-tiny-image"),
            call(f"{every}get-structured-content", location="Chicago"),
            call(f"{every}trigger-elicitation-request"),
        ],
        [call(f"{every}trigger-sampling-request", prompt="why?")],
        "Because.",
        [call(f"{every}trigger-long-running-operation", duration=1, steps=3), call(f"{every}get-roots-list")],
        "Done.",
        "Sunny.",
        takes=["image"],
    )
    options = {"mcp_servers": [everything()]}
    async with desk(tmp_path, model=model, mode="code", options=options) as (session, client, _):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
        assert (await session.prompt("/mcp:every:args-prompt Paris")).stop_reason == "end_turn"
    told = results(model)
    assert {how for _, how, _ in told} == {"success"}, told
    words = {name.removeprefix(every): text for name, _, text in told}
    assert words["echo"] == "Echo: hello" and "Because." in words["trigger-sampling-request"]
    assert tmp_path.as_uri() in words["get-roots-list"] and "temperature" in words["get-structured-content"]
    pictures = [p for m in model.requests[-1].history if isinstance(m, Results) for r in m.results for p in r.parts]
    assert [part.media_type for part in pictures if isinstance(part, Media)] == ["image/png"]
    sampled = next(request for request in model.requests if request.purpose == "sampling")
    assert sampled.instructions == "You are a helpful test server." and not sampled.tools
    assert any(
        shown["title"] == "every asks scripted" or "asks" in shown["title"] for shown in calls(client).values()
    )
    asked = [m for m in model.requests[-1].history if isinstance(m, ModelInput)][-1]
    assert [part.text for part in asked.parts if isinstance(part, TextPart)] == ["What's weather in Paris?"]
    listed = [u.available_commands for u in updates(client) if isinstance(u, s.AvailableCommandsUpdate)]
    assert {"undo", "mcp:every:args-prompt"} <= {command.name for command in listed[-1]}


async def test_a_tool_that_is_a_task_is_followed_to_its_end_and_asks_on_the_way(tmp_path: Path) -> None:
    clear = 'simulate-research-query {"topic": "whales"}'
    vague = 'simulate-research-query {"topic": "python", "ambiguous": true}'
    client, said = await used(Helper, tmp_path, clear, vague, form={"interpretation": "snake"})
    assert "Research Report: whales" in said[0] and "Research Report: python (snake)" in said[1]
    (question,) = [request for request in client.requests if isinstance(request, s.FormElicitation)]
    assert "multiple interpretations" in question.message
    assert any("Gathering sources" in title for title in titles(client))


async def test_a_task_is_cancelled_with_its_turn(tmp_path: Path) -> None:
    async with pair(Helper, RecordingClient()) as connected:
        session = await connected.new_session(tmp_path, mcp_servers=[everything()])
        prompt = session.prompt('simulate-research-query {"topic": "whales"}')
        async for event in prompt:
            if isinstance(event, s.ToolCallUpdated) and "sources" in (event.title or ""):
                session.cancel()
        assert prompt.response.stop_reason == "cancelled"
        events = [event async for event in session.prompt('echo {"message": "still here"}')]
    assert "Echo: still here" in str(events)


async def test_a_call_is_cancelled_with_its_turn_and_the_server_serves_the_next_one(tmp_path: Path) -> None:
    async with pair(Helper, RecordingClient()) as connected:
        session = await connected.new_session(tmp_path, mcp_servers=[everything()])
        prompt = session.prompt('trigger-long-running-operation {"duration": 300, "steps": 600}')
        async for event in prompt:
            if isinstance(event, s.ToolCallUpdated) and "of 600" in (event.title or ""):
                session.cancel()
        assert prompt.response.stop_reason == "cancelled"
        events = [event async for event in session.prompt('echo {"message": "still here"}')]
    assert "Echo: still here" in str(events)
