"""The draft for real: its agents work with our host, its clients with our agents, whatever they leave out."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import Agent, connect
from dragoman import schema as s
from dragoman.host import Host
from dragoman.testing import RecordingClient, Testy, raw
from dragoman.testing.pairing import RawWire
from dragoman.transports.memory import pipe

from .line import Line
from .scripted import ScriptedClient

WELCOME = {
    "protocolVersion": 1,
    "agentInfo": {"name": "Claude Agent", "version": "1.0.0"},
    "capabilities": {
        "loadSession": True,
        "mcpCapabilities": {"servers": True, "transport": ["stdio", "http"]},
        "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": True},
        "sessionCapabilities": {
            "modes": ["default", "plan"],
            "configOptions": ["autoApprove"],
            "persistence": True,
        },
    },
}
GREETING = {
    "protocolVersion": 1,
    "clientInfo": {"name": "VS Code", "version": "1.85.0"},
    "capabilities": {
        "fs": {"read": True, "write": True},
        "terminal": {"create": True, "interactive": False, "maxConcurrent": 5},
        "ui": {"permissionDialogs": True, "diffViewer": True},
    },
}


class DraftAgent(RawWire):
    """An agent of the draft, spoken for by hand."""

    def update(self, session_id, type, **data):
        self.tell("session/update", {"sessionId": session_id, "type": type, "data": data})

    async def serve(self, expected):
        """Wait for a call, and give it."""
        message = await self.receive()
        while message.get("method") != expected:
            assert message["method"] == "terminal/output", message  # it may always be pushed something
            self.take_push(message)
            message = await self.receive()
        return message

    pushed = ""

    def take_push(self, message):
        type(self).pushed = self.pushed = self.pushed + message["params"]["data"]
        self.reply(message, {"received": True})

    def reply(self, request, result):
        self.send({"id": request["id"], "result": result})

    async def ask_for(self, method, params):
        """Ask the client, taking what it pushes meanwhile."""
        id = self.ask(method, params)
        while True:
            message = await self.receive()
            if message.get("id") == id and "method" not in message:
                return message
            assert message["method"] == "terminal/output", message
            self.take_push(message)


@asynccontextmanager
async def hosted(host, cwd, **welcome):
    """A host with a session of a draft agent, which is handed over with the id of the session."""
    ours, theirs = pipe()
    agent = DraftAgent(theirs)
    async with asyncio.timeout(10):
        connecting = asyncio.create_task(agent.serve("initialize"))
        async with connect_to(ours, host, connecting, agent, welcome) as client:
            opening = asyncio.create_task(client.new_session(cwd))
            request = await agent.serve("session/new")
            assert request["params"]["workingDirectory"] == str(cwd)
            agent.reply(request, {"sessionId": "sess_a1", "createdAt": "2026-02-04T10:30:00Z"})
            yield await opening, agent


@asynccontextmanager
async def connect_to(wire, client, greeting, agent, welcome):
    async def shake():
        agent.reply(await greeting, {**WELCOME, **welcome})

    shaking = asyncio.create_task(shake())
    async with connect(wire, client, dialect="draft") as connected:
        await shaking
        yield connected


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "auth.ts").write_text("one\ntwo\nthree\n")
    return root


ALLOWING = ["Allow for this session", "Allow once"]


def host(choices=(), **options):
    """A host whose user gives these answers, by the words on the button; nothing else is allowed."""
    asked, answers = [], list(choices)

    async def ask(question):
        asked.append(question)
        label = answers.pop(0)
        return next(option.id for option in question.options if label in option.label)

    made = Host(asker=ask, audit=False, store=False, **options)
    made.asked = asked
    return made


# An agent of the draft and our host


async def test_a_whole_turn_with_a_tool_call_a_permission_and_two_files(project):
    path = str(project / "src" / "auth.ts")
    async with hosted(host(ALLOWING, preset="allow-reads"), project) as (
        session,
        agent,
    ):
        prompt = session.prompt("Add error handling to the login function")
        request = await agent.serve("session/prompt")
        assert request["params"]["content"] == [
            {"type": "text", "text": "Add error handling to the login function"}
        ]
        agent.update("sess_a1", "thought_message_chunk", content="I need to read it first", visible=True)
        agent.update(
            "sess_a1", "tool_call", id="tc_1", tool="fs/read_text_file", input={"path": path}, status="pending"
        )
        read = await agent.ask_for("fs/read_text_file", {"path": path})
        whole = {"content": "one\ntwo\nthree\n", "encoding": "utf-8", "totalLines": 3, "truncated": False}
        assert read["result"] == whole
        agent.update(
            "sess_a1", "tool_call_update", id="tc_1", status="completed", output={"type": "text", "text": "ok"}
        )
        agent.update("sess_a1", "agent_message_chunk", content="Let me write it.", index=0)
        given = {"path": path, "content": "..."}
        agent.update(
            "sess_a1",
            "tool_call",
            id="tc_2",
            tool="fs/write_text_file",
            input=given,
            status="pending",
            requiresPermission=True,
        )
        question = {"sessionId": "sess_a1", "operation": "file_write", "resource": path, "toolCallId": "tc_2"}
        granted = await agent.ask_for("session/request_permission", {**question, "reason": "Add error handling"})
        assert granted["result"] == {"granted": True, "remember": True, "scope": "session"}
        written = await agent.ask_for("fs/write_text_file", {"path": path, "content": "four\n"})
        assert written["result"] == {"bytesWritten": 5, "created": False}
        hunk = {
            "oldStart": 1,
            "oldLines": 3,
            "newStart": 1,
            "newLines": 1,
            "content": "@@ -1,3 +1 @@\n-one\n-two\n-three\n+four",
        }
        diff = {"type": "diff", "path": path, "hunks": [hunk]}
        agent.update("sess_a1", "tool_call_update", id="tc_2", status="completed", output=diff)
        agent.update("sess_a1", "agent_message_chunk", content=" Done.", index=1, final=True)
        agent.reply(request, {"stopReason": "end_turn", "usage": {"inputTokens": 350, "outputTokens": 520}})
        *updates, response = [event async for event in prompt]
    assert response.usage.total_tokens == 870
    assert (
        "".join(u.content.text for u in updates if isinstance(u, s.AgentMessageChunk)) == "Let me write it. Done."
    )
    kinds = {u.tool_call_id: u.kind for u in updates if isinstance(u, s.ToolCall)}
    assert kinds == {"tc_1": "read", "tc_2": "edit"}
    shown = next(u.content[0] for u in updates if isinstance(u, s.ToolCallUpdate) and u.tool_call_id == "tc_2")
    assert (shown.old_text, shown.new_text) == ("one\ntwo\nthree\n", "four\n")
    assert Path(path).read_text() == "four\n"


async def test_a_relative_path_is_one_of_the_session_and_lines_are_counted_from_both_ends(project):
    async with hosted(host(preset="allow-reads"), project) as (_, agent):
        part = await agent.ask_for("fs/read_text_file", {"path": "src/auth.ts", "startLine": 2, "endLine": 3})
        counted = {"encoding": "utf-8", "totalLines": 3, "truncated": False}
        assert part["result"] == {"content": "two\nthree\n", **counted}
        missing = await agent.ask_for("fs/read_text_file", {"path": "src/none.ts"})
        assert missing["error"]["code"] == -32004


async def test_a_file_is_not_overwritten_when_it_must_not_be(project):
    async with hosted(host(preset="allow-edits"), project) as (_, agent):
        there = {"path": str(project / "src" / "auth.ts"), "content": "gone", "overwrite": False}
        assert (await agent.ask_for("fs/write_text_file", there))["error"]["code"] == -32602
        new = {
            "path": str(project / "src" / "new.ts"),
            "content": "é",
            "overwrite": False,
            "createDirectories": True,
        }
        assert (await agent.ask_for("fs/write_text_file", new))["result"] == {"bytesWritten": 2, "created": True}
    assert (project / "src" / "auth.ts").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("label", "result"),
    [
        ("Allow once", {"granted": True, "scope": "once"}),
        ("Allow in this workspace", {"granted": True, "remember": True, "scope": "workspace"}),
        ("Allow always", {"granted": True, "remember": True, "scope": "always"}),
        ("Reject always", {"granted": False, "remember": True, "scope": "always"}),
    ],
)
async def test_the_user_says_for_how_long(project, label, result):
    async with hosted(host([label]), project) as (_, agent):
        question = {"sessionId": "sess_a1", "operation": "network_access", "resource": "https://example.com"}
        assert (await agent.ask_for("session/request_permission", question))["result"] == result


async def test_a_command_pushes_what_it_prints_and_is_waited_for(project):
    async with hosted(host(preset="allow-all"), project) as (_, agent):
        command = {"command": "sh", "args": ["-c", "echo $WORD; sleep 0.2; echo more"], "env": {"WORD": "first"}}
        created = (await agent.ask_for("terminal/create", {**command, "cwd": str(project)}))["result"]
        ended = await agent.ask_for("terminal/wait_for_exit", {"terminalId": created["terminalId"]})
        assert ended["result"] == {"exitCode": 0, "timedOut": False}
        assert agent.pushed == "first\nmore\n"
        released = await agent.ask_for("terminal/release", {"terminalId": created["terminalId"]})
        assert released["result"] == {"released": True}


async def test_a_wait_ends_when_it_was_to_and_a_kill_ends_the_command(project):
    async with hosted(host(preset="allow-all"), project) as (_, agent):
        created = (await agent.ask_for("terminal/create", {"command": "sleep", "args": ["60"]}))["result"]
        waited = await agent.ask_for("terminal/wait_for_exit", {"terminalId": created["terminalId"], "timeout": 50})
        assert waited["result"]["timedOut"] is True
        killed = await agent.ask_for("terminal/kill", {"terminalId": created["terminalId"], "force": True})
        assert killed["result"] == {"killed": True}
        ended = (await agent.ask_for("terminal/wait_for_exit", {"terminalId": created["terminalId"]}))["result"]
        assert ended["timedOut"] is False
        assert ended["exitCode"] > 128


async def test_a_command_is_killed_when_its_time_is_up(project):
    async with hosted(host(preset="allow-all"), project) as (_, agent):
        created = (await agent.ask_for("terminal/create", {"command": "sleep", "args": ["60"], "timeout": 50}))[
            "result"
        ]
        ended = (await agent.ask_for("terminal/wait_for_exit", {"terminalId": created["terminalId"]}))["result"]
        assert ended["exitCode"] > 128


async def test_what_the_user_forbids_is_told_in_the_words_of_the_draft(project):
    async with hosted(host(preset="deny"), project) as (_, agent):
        refused = await agent.ask_for("fs/read_text_file", {"path": str(project / "src" / "auth.ts")})
        assert "error" in refused
        question = {"sessionId": "sess_a1", "operation": "file_delete", "resource": str(project / "src")}
        assert (await agent.ask_for("session/request_permission", question))["result"]["granted"] is False


async def test_a_turn_that_fails_fails_here(project):
    async with hosted(host(), project) as (session, agent):
        prompt = session.prompt("go")
        agent.reply(await agent.serve("session/prompt"), {"stopReason": "error", "error": "the model is gone"})
        with pytest.raises(Exception, match="the model is gone"):
            await prompt


async def test_modes_and_options_are_what_the_agent_said_they_are(project):
    async with hosted(host(), project) as (session, agent):
        assert [mode.id for mode in session.modes.available_modes] == ["default", "plan"]
        setting = asyncio.create_task(session.set_mode("plan"))
        request = await agent.serve("session/set_mode")
        assert request["params"] == {"sessionId": "sess_a1", "mode": "plan"}
        agent.reply(request, {"previousMode": "default", "currentMode": "plan"})
        await setting
        setting = asyncio.create_task(session.set_config_option("autoApprove", True))
        request = await agent.serve("session/set_config_option")
        agent.reply(request, {"key": "autoApprove", "previousValue": False, "currentValue": True})
        (option,) = await setting
        assert (option.id, option.current_value) == ("autoApprove", True)


class Library(RecordingClient):
    """A client with an MCP server of its own."""

    async def message_mcp(self, params):
        if params.method == "tools/none":
            return {"error": {"code": -32601, "message": "there is none"}}
        return {"result": {"server": params.server_id, "asked": params.method, "with": params.params}}


async def test_an_agent_of_the_draft_asks_a_server_in_the_client(project):
    async with hosted(Library(), project) as (_, agent):
        request = {"serverName": "hub", "mcpMethod": "tools/call", "mcpParams": {"name": "search"}}
        answer = await agent.ask_for("_mcp/request", request)
        assert answer["result"] == {"server": "hub", "asked": "tools/call", "with": {"name": "search"}}
        answer = await agent.ask_for("_mcp/request", {"serverName": "hub", "mcpMethod": "tools/none"})
        assert answer["error"]["message"] == "there is none"


# A client of the draft and our agents


class Careful(Testy):
    """Asks before it writes, and runs a command."""

    accepts = (*Testy.accepts, "system_prompt")

    async def answer(self, turn):
        if turn.text == "fail":
            raise RuntimeError("broken")
        await turn.think("Hm.")
        async with turn.tool("Write a", kind="edit", locations=["a.txt"], id="tc") as call:
            if await turn.ask(call):
                text = await turn.read("a.txt")
                await turn.write("a.txt", text + "more\n")
                await call.diff("a.txt", text, text + "more\n")
        async with turn.terminal("make", env={"CI": "1"}, output_byte_limit=6) as terminal:
            status = await terminal.wait()
            await turn.say(f"{(await terminal.output()).output} {status.exit_code}")
        turn.usage = s.Usage(total_tokens=3, input_tokens=1, output_tokens=2, thought_tokens=7)


class DraftClient(ScriptedClient):
    """A client of the draft; the results of its calls, and its updates by their types."""

    async def until(self, id):
        response = await super().until(id)
        return response.get("result") or response

    @property
    def told(self):
        return [(update["type"], update["data"]) for update in self.updates]


@asynccontextmanager
async def served(app):
    async with asyncio.timeout(10), raw(app) as wire:
        client = DraftClient(wire)
        await client.call("initialize", GREETING)
        yield client


def prompt(session_id, text, **more):
    return {"sessionId": session_id, "content": [{"type": "text", "text": text}], **more}


async def test_our_agent_works_for_a_client_of_the_draft():
    async with served(Careful) as client:
        opened = await client.call("session/new", {"workingDirectory": "/work"})
        assert opened["createdAt"].startswith("20")

        def push(message):
            for stream, data in (("stdout", "building\n"), ("stderr", "done\n")):
                client.wire.ask("terminal/output", {"terminalId": "t9", "data": data, "stream": stream})
            return {"exitCode": 2}

        client.answers = {
            "session/request_permission": {"granted": True, "remember": True, "scope": "session"},
            "fs/read_text_file": {"content": "text\n", "encoding": "utf-8", "totalLines": 1},
            "fs/write_text_file": {"bytesWritten": 10, "created": False},
            "terminal/create": {"terminalId": "t9", "pid": 4711},
            "terminal/wait_for_exit": push,
            "terminal/release": {"released": True},
        }
        result = await client.call("session/prompt", prompt(opened["sessionId"], "go"))
    assert result == {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 2}}
    asked = dict(client.asked)
    assert asked["session/request_permission"]["operation"] == "file_write"
    assert asked["session/request_permission"]["resource"] == "/work/a.txt"
    assert asked["fs/write_text_file"] == {
        "path": "/work/a.txt",
        "content": "text\nmore\n",
        "createDirectories": True,
        "overwrite": True,
    }
    assert asked["terminal/create"] == {"command": "make", "args": [], "env": {"CI": "1"}}
    updates = client.told
    statuses = [data["status"] for type, data in updates if type.startswith("tool_call") and data["id"] == "tc"]
    assert list(dict.fromkeys(statuses)) == ["pending", "awaiting_permission", "in_progress", "completed"]
    words = [data for type, data in updates if type == "agent_message_chunk"]
    assert words[0]["content"] == "\ndone\n 2"  # no more than the agent wanted kept
    assert [(data["index"], data["final"]) for data in words] == [(0, False), (1, True)]
    (diff,) = [data["output"] for _, data in updates if data.get("output", {}).get("type") == "diff"]
    assert diff["hunks"][0]["content"].endswith("+more")


async def test_a_permission_that_is_denied_shows_in_the_tool_call():
    async with served(Careful) as client:
        opened = await client.call("session/new", {"workingDirectory": "/work"})
        client.answers = {
            "session/request_permission": {"granted": False},
            "terminal/create": {"terminalId": "t1"},
            "terminal/wait_for_exit": {"exitCode": 0},
            "terminal/release": {"released": True},
        }
        await client.call("session/prompt", prompt(opened["sessionId"], "go"))
        assert [data["status"] for _, data in client.told if data.get("id") == "tc"][-1] == "denied"


async def test_a_session_is_opened_in_the_mode_and_with_the_options_that_were_asked_for():
    async with served(Careful) as client:
        params = {
            "workingDirectory": "/",
            "initialMode": "plan",
            "configOptions": {"model": "large", "verbose": True},
        }
        opened = await client.call("session/new", params)
        changed = await client.call("session/set_mode", {"sessionId": opened["sessionId"], "mode": "code"})
        assert changed == {"previousMode": "plan", "currentMode": "code"}
        option = {"sessionId": opened["sessionId"], "key": "model", "value": "small"}
        assert await client.call("session/set_config_option", option) == {
            "key": "model",
            "previousValue": "large",
            "currentValue": "small",
        }
        assert ("current_mode_update", {"previousMode": "plan", "currentMode": "plan"}) in client.told


async def test_an_option_has_values_of_any_kind():
    values = ("12", '{"most":[1,null]}')
    choices = [s.SessionConfigSelectOption(value=value, name=value) for value in values]
    option = s.SessionConfigSelect(id="limits", name="Limits", current_value="12", options=choices)
    agent = type("Tuned", (Careful,), {"config_options": (option,)})
    async with served(agent) as client:
        id = (await client.call("session/new", {"workingDirectory": "/"}))["sessionId"]
        for value in ({"most": [1, None]}, 12):
            wanted = {"sessionId": id, "key": "limits", "value": value}
            assert (await client.call("session/set_config_option", wanted))["currentValue"] == value
        wrong = {"sessionId": id, "key": "limits", "value": {"most": 2}}
        assert (await client.call("session/set_config_option", wrong))["error"]["code"] == -32602


async def test_a_session_that_cannot_have_its_mode_is_not_opened():
    async with served(Careful) as client:
        params = {"workingDirectory": "/", "initialMode": "flying"}
        assert (await client.call("session/new", params))["error"]["code"] == -32602
        parts = {"workingDirectory": "/", "configOptions": {"model": {"deep": 1}}}
        assert (await client.call("session/new", parts))["error"]["code"] == -32602


async def test_a_system_prompt_reaches_an_agent_that_takes_one():
    prompts = []

    class Listener(Agent):
        accepts = ("system_prompt",)

        async def opened(self, session):
            prompts.append(session.system_prompt.content[0].text)

    async with served(Listener) as client:
        await client.call("session/new", {"workingDirectory": "/", "systemPrompt": "Be kind."})
    assert prompts == ["Be kind."]


async def test_attachments_are_part_of_the_prompt():
    heard = []

    class Listener(Agent):
        accepts = ("embedded_context",)

        async def answer(self, turn):
            heard.extend(turn.prompt)

    async with served(Listener) as client:
        opened = await client.call("session/new", {"workingDirectory": "/"})
        attachments = [{"path": "/a/b.txt"}, {"uri": "file:///c.txt", "content": "text", "mimeType": "text/plain"}]
        await client.call("session/prompt", prompt(opened["sessionId"], "look", attachments=attachments))
    assert heard[1] == s.ResourceLink(uri="file:///a/b.txt", name="b.txt")
    assert heard[2].resource.text == "text"


async def test_a_session_is_loaded_by_its_id_alone():
    async with served(Testy) as client:
        opened = await client.call("session/new", {"workingDirectory": "/work"})
        await client.call("session/prompt", prompt(opened["sessionId"], "hello"))
        client.updates.clear()
        loaded = await client.call("session/load", {"sessionId": opened["sessionId"]})
        assert loaded["workingDirectory"] == "/work"
        assert (loaded["mode"], loaded["configOptions"]["model"]) == ("code", "small")
        assert loaded["messageCount"] == 2
        assert [data["content"] for _, data in client.told if data.get("content")] == ["hello", "hello"]
        missing = await client.call("session/load", {"sessionId": "nobody's"})
        assert missing["error"]["code"] == -32000


async def test_a_turn_of_ours_that_fails_ends_with_an_error_as_its_reason():
    async with served(Careful) as client:
        opened = await client.call("session/new", {"workingDirectory": "/"})
        result = await client.call("session/prompt", prompt(opened["sessionId"], "fail"))
        assert result["stopReason"] == "error"
        assert "broken" not in json.dumps(result)


async def test_a_cancelled_turn_says_so_to_its_tools_too():
    class Slow(Agent):
        async def answer(self, turn):
            async with turn.tool("Wait", kind="execute", id="tc"):
                await asyncio.Event().wait()

    async with served(Slow) as client:
        opened = await client.call("session/new", {"workingDirectory": "/"})
        id = client.wire.ask("session/prompt", prompt(opened["sessionId"], "go"))
        assert (await client.wire.receive())["params"]["type"] == "tool_call"
        client.wire.tell("session/cancel", {"sessionId": opened["sessionId"], "reason": "user_requested"})
        assert (await client.until(id))["stopReason"] == "cancelled"
        assert [data["status"] for _, data in client.told if data.get("id") == "tc"] == ["cancelled"]


async def test_login_is_answered_not_refused():
    async with served(Testy) as client:
        good = {"method": "key", "credentials": {"apiKey": "not a real one"}}
        assert await client.call("authenticate", good) == {"success": True}


async def test_a_client_hears_of_a_login_that_failed():
    ours, theirs = pipe()
    agent = DraftAgent(theirs)
    greeting = asyncio.create_task(agent.serve("initialize"))
    async with asyncio.timeout(5), connect_to(ours, RecordingClient(), greeting, agent, {}) as client:
        login = asyncio.create_task(client.authenticate("api_key"))
        request = await agent.serve("authenticate")
        assert request["params"] == {"method": "api_key", "credentials": {}}
        agent.reply(request, {"success": False, "error": "no such key"})
        with pytest.raises(Exception, match="no such key"):
            await login


def test_what_only_a_vendor_knows_of_is_offered_in_either_way():
    vendors = {"codeAnalysis": True}
    for client, agent, name, custom, there in (
        ("draft", "v1", "capabilities", "_custom", ("clientCapabilities", "_meta")),
        ("v1", "draft", "clientCapabilities", "_meta", ("capabilities", "_custom")),
    ):
        line = Line(client, agent)
        asked = line.ask("client", "initialize", {"protocolVersion": 1, name: {custom: vendors}})
        assert asked["params"][there[0]][there[1]] == vendors
        name, there = name.replace("client", "agent"), (there[0].replace("client", "agent"), there[1])
        answer = line.answer("agent", asked, {"protocolVersion": 1, there[0]: {there[1]: vendors}})
        assert answer["result"][name][custom] == vendors
        assert not line.lost
