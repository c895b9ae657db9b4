"""Testy does all that an agent can offer, and shows it to whoever cannot tell it what to do."""

import asyncio
import json
import sys
import time
from typing import Any

import pytest

from dragoman import InvalidParams, connect
from dragoman import schema as s
from dragoman.testing import Exhibition, RecordingClient, Testy, pair
from dragoman.testing.script import LAST_WORDS


class Server(RecordingClient):
    """A client with an MCP server of its own."""

    async def message_mcp(self, params: Any) -> Any:
        return {"result": {"tools": [{"name": params.server_id}], "asked": params.method}}


async def said(session: Any, words: str) -> str:
    events = [event async for event in session.prompt(words)]
    return "".join(event.content.text for event in events if isinstance(event, s.AgentMessageChunk))


async def test_testy_asks_a_server_over_acp():
    server = s.McpServerAcp(name="notes", server_id="server-7")
    async with pair(Testy, Server()) as client:
        session = await client.new_session("/", mcp_servers=[server])
        told = json.loads(await said(session, "mcp notes tools/list"))
        assert told == {"result": {"tools": [{"name": "server-7"}], "asked": "tools/list"}}
        assert "no MCP server" in await said(session, "mcp others")


async def test_testy_has_providers_that_can_be_pointed_elsewhere():
    async with pair(Testy) as client:
        there = s.ProviderCurrentConfig(api_type="openai", base_url="https://x.example")
        await client.agent.set_provider(
            s.SetProviderRequest(
                provider_id="spare", api_type="openai", base_url="https://x.example", headers={"K": "V"}
            )
        )
        listed = (await client.agent.list_providers(s.ListProvidersRequest())).providers
        assert [provider.current for provider in listed if provider.provider_id == "spare"] == [there]
        with pytest.raises(InvalidParams):
            await client.agent.disable_provider(s.DisableProviderRequest(provider_id="main"))
        await client.agent.disable_provider(s.DisableProviderRequest(provider_id="spare"))
        listed = (await client.agent.list_providers(s.ListProvidersRequest())).providers
        assert [provider.current for provider in listed if provider.provider_id == "spare"] == [None]


class Silent(RecordingClient):
    """Says that a command has ended, and neither its exit code nor a signal."""

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        printed = await super().terminal_output(params)
        return s.TerminalOutputResponse(output=printed.output, truncated=False, exit_status=s.TerminalExitStatus())


async def test_testy_says_no_exit_code_where_it_is_told_none():
    async with pair(Testy, Silent()) as client:
        assert await said(await client.new_session("/"), "run echo hi") == "hi\n[exit]"


@pytest.mark.parametrize("mode", ["append", "override"])
async def test_testy_knows_its_system_prompt(mode):
    prompt = s.SystemPrompt(mode=mode, content=[s.TextContent(text="Be brief.")])
    async with pair(Testy) as client:
        session = await client.new_session("/", system_prompt=prompt)
        assert json.loads(await said(session, "instructions")) == {mode: ["Be brief."]}


async def test_any_prompt_shows_a_tool_a_plan_a_terminal_a_question_and_a_form():
    async with pair(Exhibition, RecordingClient(form={"name": "Ann"}, visits=True)) as client:
        session = await client.new_session("/")
        began = time.monotonic()
        events = [event async for event in session.prompt("What a lovely day it is.")]
        assert time.monotonic() - began > 0.5  # a client that takes its time can still cancel
        kinds = {type(event) for event in events}
        assert {s.ToolCall, s.Plan, s.AgentMessageChunk} <= kinds
        asked = {type(request).__name__ for request in client.requests}
        assert {"RequestPermissionRequest", "CreateTerminalRequest", "FormElicitation", "UrlElicitation"} <= asked
        assert await said(session, "echo a command is still one") == "a command is still one"


async def test_the_exhibition_can_be_cancelled():
    async with asyncio.timeout(60), pair(Exhibition, RecordingClient()) as client:
        session = await client.new_session("/")
        prompt = session.prompt("What a lovely day it is.")
        events = [event async for event in _cancelled_at(prompt, session, s.Plan)]
        assert events[-1].stop_reason == "cancelled"
        assert events[-2].content.text == LAST_WORDS


async def _cancelled_at(prompt: Any, session: Any, kind: type) -> Any:
    """What comes of a turn that is cancelled when something of this kind is seen."""
    async for event in prompt:
        if isinstance(event, kind):
            session.cancel()
        yield event


async def test_the_exhibition_is_served_by_the_command_line():
    command = [sys.executable, "-m", "dragoman", "agent", "testy", "--exhibit"]
    async with asyncio.timeout(60), connect(command, RecordingClient()) as client:
        session = await client.new_session("/")
        events = [event async for event in session.prompt("Hello.")]
        assert any(isinstance(event, s.Plan) for event in events)
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "dragoman", "agent", "echo", "--exhibit"], stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert (process.returncode, b"--exhibit is for testy" in stderr) == (64, True)
