"""What surrounds Claude's turns: MCP servers, helpers, work in the background, commands, logins, options."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from patience import PATIENCE

import dragoman.schema as s
from dragoman import connect
from dragoman.bridges.claude import ClaudeAgent
from dragoman.errors import InvalidParams, InvalidRequest, MethodNotFound
from dragoman.foundation.programs import own_command
from dragoman.roles import extension
from dragoman.testing import pair

from .anthropic_server import Conversation, text, tool
from .clients import Bare, Lending, claude_pids, said, turn

MCP_SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "small", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            schema = {"type": "object", "properties": {"word": {"type": "string"}}}
            result = {"tools": [{"name": "greet", "description": "Greets", "inputSchema": schema}]}
        case _:
            told = os.environ["GREETING"] + " " + message["params"]["arguments"]["word"]
            result = {"content": [{"type": "text", "text": told}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_an_mcp_server_of_the_session_is_used_and_its_secrets_are_in_no_command_line(
    model: Conversation, work: Path
) -> None:
    script = work / "server.py"
    script.write_text(MCP_SERVER)
    server = s.McpServerStdio(
        name="small",
        command=sys.executable,
        args=[str(script)],
        env=[s.EnvVariable(name="GREETING", value="a-secret-greeting")],
    )
    model.say(tool("mcp__small__greet", "t1", word="world"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work, mcp_servers=[server])
        (pid,) = claude_pids()
        assert b"a-secret-greeting" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        told = await turn(session, "greet")
    call = told.call("t1")
    assert (call["status"], call["kind"], call["title"]) == ("completed", "other", "mcp__small__greet")
    assert call["content"][0]["content"]["text"] == "a-secret-greeting world"


async def test_an_mcp_server_in_the_client_is_reached_through_the_protocol(model: Conversation, work: Path) -> None:
    class Serving(Bare):
        async def message_mcp(self, params: s.MessageMcpRequest) -> s.MessageMcpResponse:
            match params.method:
                case "initialize":
                    info = {"name": "here", "version": "1"}
                    version = (params.params or {})["protocolVersion"]
                    given = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                case "tools/list":
                    given = {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"}}]}
                case _:
                    given = {"content": [{"type": "text", "text": "seen in the client"}]}
            return s.MessageMcpResponse(result=given)

    model.say(tool("mcp__here__look", "t1"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, Serving()) as client:
        session = await client.new_session(work, mcp_servers=[s.McpServerAcp(name="here", server_id="one")])
        told = await turn(session, "look")
    assert told.call("t1")["content"][0]["content"]["text"] == "seen in the client"


async def test_a_helper_s_tools_name_their_parent_and_its_report_comes_between_turns(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
    (work / "a.py").write_text("x\n")
    helper = {"description": "Look around", "prompt": "Look", "subagent_type": "general-purpose"}
    model.say(tool("Agent", "t1", **helper))
    model.say(text("not for the user"), tool("Read", "t2", file_path=str(work / "a.py")))
    model.say(text("The report."))
    model.say(text("Done."))
    async with pair(ClaudeAgent, Bare()) as client:
        told = await turn(await client.new_session(work), "look")
    assert told.text == "Done."
    call = told.call("t1")
    assert (call["title"], call["kind"], call["status"]) == ("Look around", "think", "completed")
    assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "The report."}}]
    inner = told.call("t2")
    assert inner["status"] == "completed"
    assert inner["_meta"]["claudeCode"] == {"toolName": "Read", "parentToolUseId": "t1"}


async def test_what_ends_in_the_background_is_told_between_turns(model: Conversation, work: Path) -> None:
    class Hearing(Bare):
        def __init__(self) -> None:
            super().__init__()
            self.later = asyncio.Event()

        def update(self, params: s.SessionNotification) -> None:
            super().update(params)
            if said(u.update for u in self.updates if isinstance(u.update, s.AgentMessageChunk)).endswith(
                "It ended."
            ):
                self.later.set()

    gate = work / "gate"
    model.say(tool("Bash", "t1", command=f"until [ -e {gate} ]; do sleep 0.1; done", run_in_background=True))
    model.say(text("Started."))
    client = Hearing()
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        first = await turn(session, "start it")
        model.say(text("It ended."))
        gate.touch()
        await client.later.wait()
        list(session.backlog())
        model.say(text("Next."))
        assert (await turn(session, "and now?")).text == "Next."
    assert (first.text, first.response.stop_reason) == ("Started.", "end_turn")


async def test_slash_commands_are_listed_once_the_session_is_known_and_local_ones_answer(
    model: Conversation, work: Path
) -> None:
    commands = work / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text(
        "---\ndescription: Greets\nargument-hint: <name>\n---\nSay hello to $ARGUMENTS"
    )
    model.say(text("Hello Ada."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        told = await turn(session, "/greet Ada")
        listed = [u.update for u in client.updates if isinstance(u.update, s.AvailableCommandsUpdate)]
        context = await turn(session, "/context")
    named = {command.name: command for command in listed[0].available_commands}
    assert named["greet"].description.startswith("Greets")
    assert named["greet"].input == s.UnstructuredCommandInput(hint="<name>")
    assert not {"clear", "login", "logout", "cost"} & set(named)
    assert told.text == "Hello Ada." and "Say hello to Ada" in str(model.requests[0]["messages"])
    assert "Context Usage" in context.text and context.response.stop_reason == "end_turn"


@pytest.mark.parametrize("declares", [True, False])
async def test_a_compaction_is_told_as_the_client_can_show_it(
    model: Conversation, work: Path, declares: bool
) -> None:
    client = Bare()
    if declares:
        client.session_capabilities = s.ClientSessionCapabilities(compaction=s.CompactionCapabilities())
    model.say(text("Long talk."))
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work)
        await turn(session, "talk")
        told = await turn(session, "/compact")
    assert told.response.stop_reason == "end_turn"
    if declares:
        assert [update.status for update in told.of(s.CompactionUpdate)] == ["in_progress", "completed"]
    else:
        (call,) = told.of(s.ToolCall)
        assert (call.title, call.kind) == ("Compact conversation", "think")
        assert told.call(call.tool_call_id)["status"] == "completed"
    assert "Long talk." not in told.text


async def test_terminals_of_the_agent_s_own_are_told_to_clients_that_show_them(
    model: Conversation, work: Path
) -> None:
    client = Bare()
    client.meta = {"terminal_output": True}
    model.say(tool("Bash", "t1", command="echo hi; exit 3"))
    model.say(text("ok"))
    async with pair(ClaudeAgent, client):
        told = await turn(await client.new_session(work), "run")
    calls = [u for u in told.updates if isinstance(u, s.ToolCall | s.ToolCallUpdated) and u.tool_call_id == "t1"]
    assert calls[0].content == [s.Terminal(terminal_id="t1")]
    assert (calls[0].meta or {})["terminal_info"] == {"terminal_id": "t1", "cwd": str(work)}
    last = calls[-1].meta or {}
    assert last["terminal_output"] == {"terminal_id": "t1", "data": "hi"}
    assert last["terminal_exit"] == {"terminal_id": "t1", "exit_code": 3, "signal": None}


async def test_options_of_the_client_reach_the_program_and_unknown_ones_are_refused(
    model: Conversation, work: Path
) -> None:
    heard: list[str] = []

    class Hearing(Bare):
        @extension("_claude/sdkMessage")
        def raw(self, params: dict) -> None:  # type: ignore[type-arg]
            heard.append(params["message"]["type"])

    options = {"model": "haiku", "disallowedTools": ["WebFetch"], "permissionMode": "bypassPermissions"}
    claude = {"options": options, "emitRawSDKMessages": [{"type": "result"}]}
    meta = {"systemPrompt": {"append": "Always rhyme."}, "claudeCode": claude}
    model.say(text("ok"))
    async with pair(ClaudeAgent, Hearing()) as client:
        session = await client.new_session(work, meta=meta)
        assert session.modes and session.modes.current_mode_id == "default"  # which the client cannot set this way
        await turn(session, "hi")
        with pytest.raises(InvalidParams, match="spawnClaudeCodeProcess"):
            await client.new_session(work, meta={"claudeCode": {"options": {"spawnClaudeCodeProcess": "sh"}}})
        model.say(text("ok"))
        bare = await client.new_session(work, meta={"systemPrompt": "You are a poet.", "disableBuiltInTools": True})
        await turn(bare, "hi")
    assert heard == ["result"]
    assert "haiku" in model.requests[0]["model"] and "Always rhyme." in json.dumps(model.requests[0]["system"])
    last = (model.requests + model.aside)[-1]
    assert "You are a poet." in json.dumps(last["system"]) and not last.get("tools")


async def test_only_logins_that_the_client_can_use_are_offered(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    for name in ("SSH_CLIENT", "SSH_TTY", "NO_BROWSER", "CLAUDE_CODE_REMOTE"):
        monkeypatch.delenv(name, raising=False)

    async def offered(auth: s.AuthCapabilities, **options: bool) -> list[str]:
        class Asking(Bare):
            def capabilities(self) -> s.ClientCapabilities:
                return replace(super().capabilities(), auth=auth)

        async with pair(lambda remote: ClaudeAgent(remote, **options), Asking()) as client:
            return [method.id for method in client.auth_methods]

    terminal = s.AuthCapabilities(terminal=True)
    assert await offered(s.AuthCapabilities()) == []
    assert await offered(terminal) == ["claude-ai-login", "console-login"]
    assert await offered(terminal, hide_subscription=True) == ["console-login"]
    assert await offered(s.AuthCapabilities(meta={"gateway": True})) == ["gateway", "gateway-bedrock"]
    monkeypatch.setenv("NO_BROWSER", "1")
    assert await offered(terminal) == ["claude-login"]
    command = own_command("dragoman", "agent", "claude", "--cli", "--version")
    shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE)
    assert "Claude Code" in shown.stdout


async def test_a_gateway_is_used_in_the_place_of_a_login_also_by_open_sessions(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        gateway = {"gateway": {"baseUrl": model.url, "headers": {"x-team": "blue"}}}
        await client.agent.authenticate(s.AuthenticateRequest(method_id="gateway", meta=gateway))
        model.say(text("Through the gateway."))
        assert (await turn(session, "hi")).text == "Through the gateway."
        listed = await client.agent.list_providers(s.ListProvidersRequest())
        assert listed.providers[0].current == s.ProviderCurrentConfig(api_type="anthropic", base_url=model.url)
        with pytest.raises(InvalidRequest):
            await client.agent.disable_provider(s.DisableProviderRequest(provider_id="main"))
        with pytest.raises(InvalidParams):
            await client.agent.set_provider(
                s.SetProviderRequest(provider_id="main", api_type="openai", base_url=model.url)
            )
        with pytest.raises(MethodNotFound):
            await client.agent.authenticate(s.AuthenticateRequest(method_id="claude-ai-login"))
        assert (await client.agent.auth_status(s.AuthStatusRequest())).state == "authenticated"
    assert model.headers[-1]["x-team"] == "blue"


async def test_the_program_of_the_command_line_serves_claude_in_version_2_as_well(
    model: Conversation, work: Path
) -> None:
    model.say(text("Hello."))
    async with connect(own_command("dragoman", "agent", "claude"), Lending(), dialect="v2") as client:
        assert client.agent_info and client.agent_info.title == "Claude Agent"
        told = await turn(await client.new_session(work), "hi")
    assert told.text == "Hello." and told.response.stop_reason == "end_turn"
