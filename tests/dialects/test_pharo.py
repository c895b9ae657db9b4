"""The Pharo specification for real: its agents work with our host, its clients with our agents."""

import asyncio

import pytest

from dragoman import Agent, AuthRequired, ResourceNotFound, Transcript
from dragoman import schema as s
from dragoman.host import Host
from dragoman.testing import RecordingClient, Testy

from .line import Line
from .scripted import with_agent, with_client

WELCOME = {
    "protocolVersion": 1,
    "agentInfo": {"name": "Pharo ACP Agent", "version": "1.0.0"},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"supportedTransports": ["stdio", "http"]},
        "sessionModes": [
            {"modeId": "code", "title": "Code Mode", "description": "All tools"},
            {"modeId": "ask", "title": "Ask Mode", "description": "Asks first"},
        ],
    },
    "authenticationMethods": [{"methodId": "api_key", "title": "API Key", "description": "With a key"}],
}
ALL = {"create": True, "output": True, "waitForExit": True, "kill": True, "release": True}
GREETING = {
    "protocolVersion": 1,
    "clientInfo": {"name": "Pharo IDE", "version": "14.0"},
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": ALL},
}


def talk(client, **more):
    return with_agent(client, WELCOME, "pharo", **more)


async def test_a_host_and_an_agent_of_the_specification_work_together(tmp_path):
    (tmp_path / "config.json").write_text('{"version": "1.0.0"}')

    async def ask(question):
        return next(option.id for option in question.options if "Delete files" in option.label)

    host = Host(preset="allow-all", asker=ask, audit=False, store=False)
    async with talk(host, cwd=tmp_path) as (session, agent, _):
        assert [mode.name for mode in session.modes.available_modes] == ["Code Mode", "Ask Mode"]
        assert session.modes.current_mode_id == "code"
        assert session.client.auth_methods[0].id == "api_key"
        prompt = session.prompt("Create a HelloWorld class")
        request = await agent.called("session/prompt")
        assert request["params"]["prompt"] == [{"type": "text", "text": "Create a HelloWorld class"}]
        agent.update(type="message", role="agent", content=[{"type": "text", "text": "I'll create it."}])
        agent.update(type="tool_call", toolCallId="t1", title="Write", kind="edit", status="pending", content=[])
        await files(agent, tmp_path)
        await commands(agent, tmp_path)
        await permission(agent)
        diff = {"type": "diff", "path": f"{tmp_path}/Hello.st", "oldText": "", "newText": "Object subclass: #Hello"}
        agent.update(type="tool_call_update", toolCallId="t1", status="completed", content=[diff])
        agent.update(type="current_mode_update", modeId="ask")
        agent.reply(request, {"stopReason": "end_turn"})
        transcript = Transcript([event async for event in prompt])
    assert [message.text for message in transcript.messages] == ["I'll create it."]
    assert transcript.mode == "ask"
    assert transcript.tool_calls[0].content[0].new_text == "Object subclass: #Hello"


async def files(agent, root):
    read = await agent.calls("fs/read_text_file", {"sessionId": "sess_1", "path": f"{root}/config.json"})
    assert read["result"] == {"content": '{"version": "1.0.0"}'}
    part = {"sessionId": "sess_1", "path": f"{root}/config.json", "startLine": 1, "lineLimit": 1}
    assert (await agent.calls("fs/read_text_file", part))["result"]["content"].startswith("{")
    new = {"sessionId": "sess_1", "path": f"{root}/deep/output.txt", "content": "Hello from ACP!"}
    assert (await agent.calls("fs/write_text_file", new))["result"] is None
    assert (root / "deep" / "output.txt").read_text() == "Hello from ACP!"
    missing = {"sessionId": "sess_1", "path": f"{root}/none.txt"}
    assert (await agent.calls("fs/read_text_file", missing))["error"]["code"] == -32003


async def commands(agent, root):
    command = {"command": "sh", "args": ["-c", "echo Hello $WHO"], "cwd": str(root), "env": {"WHO": "Terminal"}}
    created = (await agent.calls("terminal/create", {"sessionId": "sess_1", **command}))["result"]
    ids = {"sessionId": "sess_1", "terminalId": created["terminalId"]}
    ended = (await agent.calls("terminal/wait_for_exit", {**ids, "timeout": 9000}))["result"]
    assert ended == {"output": "Hello Terminal\n", "exitCode": 0}
    assert (await agent.calls("terminal/output", ids))["result"] == ended
    assert (await agent.calls("terminal/release", ids))["result"] is None
    created = await agent.calls("terminal/create", {"sessionId": "sess_1", "command": "sleep", "args": ["60"]})
    ids = {"sessionId": "sess_1", "terminalId": created["result"]["terminalId"]}
    late = (await agent.calls("terminal/wait_for_exit", {**ids, "timeout": 20}))["result"]
    assert late == {"output": "", "exitCode": None}
    assert (await agent.calls("terminal/kill", ids))["result"] is None
    assert (await agent.calls("terminal/release", ids))["result"] is None


async def permission(agent):
    options = [
        {"optionId": "allow", "kind": "allow_once", "label": "Delete files"},
        {"optionId": "reject", "kind": "reject_once", "label": "Keep files"},
    ]
    question = {"sessionId": "sess_1", "title": "Delete test files?", "description": "5 files", "options": options}
    # The host asks in its own words where a name says the opposite of its kind; these do not.
    answer = await agent.calls("session/request_permission", question)
    assert answer["result"] == {"selectedOptionId": "allow"}


async def test_servers_and_options_are_said_as_the_specification_wants_them():
    async with talk(RecordingClient()) as (session, agent, opened):
        assert opened == {"cwd": "/work", "mcpServers": []}
        setting = asyncio.create_task(session.set_config_option("autoApproveTools", True))
        request = await agent.called("session/set_config_option")
        assert request["params"] == {"sessionId": "sess_1", "option": "autoApproveTools", "value": True}
        agent.reply(request, None)
        assert await setting == []


class Author(Testy):
    async def answer(self, turn):
        async with turn.tool("Delete logs", kind="switch_mode", id="t1", locations=["a", "b"]) as call:
            if await turn.ask(call):
                text = await turn.read("log.txt", line=2, limit=3)
                await turn.write("log.txt", text)
                await call.diff("log.txt", None, text)
        async with turn.terminal("echo", "x", env={"A": "1"}, output_byte_limit=10) as terminal:
            await call.terminal(terminal)
            await terminal.wait()
            await turn.say((await terminal.output()).output)
        return "max_turn_requests"


async def test_our_agent_works_for_a_client_of_the_specification():
    async with with_client(Author, GREETING) as client:
        assert client.welcome["agentInfo"] == {"name": "testy", "version": "1.0"}
        assert client.welcome["agentCapabilities"]["mcpCapabilities"] == {
            "supportedTransports": ["stdio", "http", "sse", "acp"]
        }
        modes = client.welcome["agentCapabilities"]["sessionModes"]
        assert [(mode["modeId"], mode["title"]) for mode in modes] == [("code", "Code"), ("plan", "Plan")]
        assert client.welcome["authenticationMethods"][0] == {
            "methodId": "key",
            "title": "With a key",
            "description": "Testy asks nobody",
        }
        server = {"transport": "stdio", "command": "/opt/serve", "args": [], "env": {"K": "v"}}
        opened = await client.call("session/new", {"cwd": "/work", "mcpServers": [server, server]})
        session_id = opened["result"]["sessionId"]
        assert set(opened["result"]) == {"sessionId"}
        client.answers = {
            "session/request_permission": lambda m: {"selectedOptionId": m["params"]["options"][0]["optionId"]},
            "fs/read_text_file": {"content": "line"},
            "fs/write_text_file": None,
            "terminal/create": {"terminalId": "term_9"},
            "terminal/wait_for_exit": {"output": "x\n", "exitCode": 0},
            "terminal/output": {"output": "x\n", "exitCode": 0},
            "terminal/release": None,
        }
        text = [{"type": "text", "text": "go", "annotations": {"title": "T", "priority": "high"}}]
        answer = await client.call("session/prompt", {"sessionId": session_id, "prompt": text})
        assert answer["result"] == {"stopReason": "max_tokens"}
        updates = [update["update"] for update in client.updates]
        loaded = await client.call("session/load", {"sessionId": session_id, "mcpServers": []})
        assert loaded["result"] is None
        nobody = await client.call("session/prompt", {"sessionId": "nobody", "prompt": text})
        assert nobody["error"]["code"] == -32005
    asked = dict(client.asked)
    assert asked["session/request_permission"]["title"] == "Delete logs"
    assert asked["session/request_permission"]["options"][0]["label"]
    assert asked["fs/read_text_file"]["startLine"] == 2
    assert asked["fs/read_text_file"]["lineLimit"] == 3
    assert asked["terminal/create"]["env"] == {"A": "1"}
    (announced,) = [update for update in updates if update["type"] == "tool_call"]
    assert announced["kind"] == "other"
    assert announced["location"] == {"path": "/work/a"}
    shown = [c for update in updates for c in update.get("content") or () if c["type"] in ("diff", "terminal")]
    assert shown[0]["oldText"] == ""
    assert shown[-1]["command"] == "echo x"
    assert {"type": "message", "role": "agent", "content": [{"type": "text", "text": "x\n"}]} in updates


async def test_a_session_nobody_knows_here_is_found_where_the_agent_lists_it():
    line = Line("pharo", "v1")
    asked = line.ask("client", "initialize", GREETING)
    line.answer("agent", asked, {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"list": {}}}})
    first = line.ask("client", "session/load", {"sessionId": "old", "mcpServers": []})
    assert first["method"] == "session/list"
    line.say("agent", {"id": first["id"], "result": {"sessions": [], "nextCursor": "2"}})
    second = line.take("agent")
    assert second["params"] == {"cursor": "2"}
    line.say("agent", {"id": second["id"], "result": {"sessions": [{"sessionId": "old", "cwd": "/there"}]}})
    assert line.take("agent")["params"] == {"sessionId": "old", "mcpServers": [], "cwd": "/there"}


def test_a_value_that_is_neither_text_nor_on_or_off_is_refused():
    line = Line("pharo", "v1")
    line.say("client", {"id": 1, "method": "session/set_config_option", "params": {"option": "n", "value": 4}})
    assert line.take("client")["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("error", "code"),
    [(AuthRequired(), -32001), (ResourceNotFound("no file", {"uri": "x"}), -32003), (ValueError("?"), -32603)],
)
async def test_errors_are_numbered_as_the_specification_numbers_them(error, code):
    class Failing(Agent):
        async def opened(self, session):
            raise error

    async with with_client(Failing, GREETING) as client:
        answer = await client.call("session/new", {"cwd": "/", "mcpServers": []})
        assert answer["error"]["code"] == code


async def test_errors_of_an_agent_mean_here_what_they_meant_there():
    async with talk(RecordingClient()) as (session, agent, _):
        prompt = session.prompt("go")
        request = await agent.called("session/prompt")
        agent.send({"id": request["id"], "error": {"code": -32005, "message": "Session not found"}})
        with pytest.raises(ResourceNotFound):
            await prompt
        prompt = session.prompt("go")
        request = await agent.called("session/prompt")
        agent.send({"id": request["id"], "error": {"code": -32001, "message": "Authentication failed"}})
        with pytest.raises(AuthRequired):
            await prompt


async def test_a_pharo_agent_that_already_speaks_version_1_is_understood():
    async with talk(RecordingClient()) as (session, agent, _):
        prompt = session.prompt("go")
        request = await agent.called("session/prompt")
        agent.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "plain"})
        agent.reply(request, {"stopReason": "end_turn"})
        first, _ = [event async for event in prompt]
        assert first == s.AgentMessageChunk(content=s.TextContent(text="plain"))
