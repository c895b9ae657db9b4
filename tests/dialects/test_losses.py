"""What each dialect cannot say: every row of its losses comes up when it should, and stands in the guide."""

from pathlib import Path

import pytest

from dragoman.dialects import NAMES, translator

from .line import Line, caller_of

GUIDE = Path(__file__).parents[2] / "docs" / "concepts" / "dialects.md"
TEXT = {"type": "text", "text": "x"}
TWICE = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
SERVER = {"name": "n", "command": "/c", "args": [], "env": []}
OPTIONS = [{"optionId": "y", "name": "Sure", "kind": "allow_once"}]
SELECT = {"id": "m", "name": "M", "type": "select", "currentValue": "a", "options": [{"value": "a", "name": "A"}]}
MODES = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}


def new(**more):
    return "session/new", {"cwd": "/", "mcpServers": [], **more}


def told(variant, **update):
    return "session/update", {"sessionId": "s", "update": {"sessionUpdate": variant, **update}}


def tool(variant="tool_call", **update):
    return told(variant, toolCallId="t", title="T", **update)


def prompt(block):
    return "session/prompt", {"sessionId": "s", "prompt": [block]}


def answered(method, **result):
    return f"= {method}", result


LOCATIONS = [{"path": "/a"}, {"path": "/b"}]
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "Another", "size": 3}
CASES = {
    "pharo": {
        "implementation title": ("initialize", {"protocolVersion": 1, "clientInfo": {"name": "e", "title": "E"}}),
        "auth method type": answered("initialize", authMethods=[{"id": "a", "name": "A", "type": "terminal"}]),
        "server name": new(mcpServers=[SERVER]),
        "repeated names": ("terminal/create", {"sessionId": "s", "command": "x", "env": TWICE}),
        "session modes": answered("session/new", sessionId="s", modes=MODES),
        "config options": answered("session/new", sessionId="s", configOptions=[SELECT]),
        "session directory": ("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}),
        "message boundaries": told("agent_message_chunk", content=TEXT, messageId="m"),
        "thoughts": told("agent_thought_chunk", content=TEXT),
        "update kinds": told("usage_update", used=1, size=2),
        "locations": tool(locations=LOCATIONS),
        "tool input and output": tool(rawInput={"a": 1}),
        "tool name": tool(name="bash"),
        "tool kind switch_mode": told("tool_call", toolCallId="t", kind="switch_mode"),
        "new file": tool(content=[{"type": "diff", "path": "/a", "newText": "x"}]),
        "annotations": prompt({**TEXT, "annotations": {"audience": ["user"]}}),
        "link to the tool call": (
            "session/request_permission",
            {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": OPTIONS},
        ),
        "truncation and signals": answered("terminal/output", output="x", truncated=True),
        "margins": answered("session/request_permission", outcome={"outcome": "cancelled", "_meta": {"a": 1}}),
        "output limit": ("terminal/create", {"sessionId": "s", "command": "x", "outputByteLimit": 5}),
        "stop reason max_turn_requests": answered("session/prompt", stopReason="max_turn_requests"),
    },
    "cursor": {"system prompt": new(systemPrompt={"mode": "append", "content": [{"type": "image", "data": ""}]})},
    "draft": {
        "client capabilities": ("initialize", {"protocolVersion": 1, "clientCapabilities": {"plan": {"a": 1}}}),
        "agent capabilities": answered("initialize", agentCapabilities={"sessionCapabilities": {"list": {}}}),
        "content types": answered("initialize", agentCapabilities={"promptCapabilities": {"image": True}}),
        "auth methods": answered("initialize", authMethods=[{"id": "a", "name": "A"}]),
        "repeated names": ("terminal/create", {"sessionId": "s", "command": "x", "env": TWICE}),
        "servers over ACP": new(mcpServers=[{"type": "acp", "name": "a", "serverId": "i"}]),
        "additional directories": new(additionalDirectories=["/b"]),
        "session directory": ("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}),
        "system prompt": new(systemPrompt={"mode": "append", "content": [TEXT]}),
        "mode list": answered("session/new", sessionId="s", modes=MODES),
        "config option definitions": answered("session/new", sessionId="s", configOptions=[SELECT]),
        "stop reasons": answered("session/prompt", stopReason="refusal"),
        "token details": answered(
            "session/prompt",
            stopReason="end_turn",
            usage={"totalTokens": 2, "inputTokens": 1, "outputTokens": 1, "thoughtTokens": 1},
        ),
        "update kinds": told("usage_update", used=1, size=2),
        "content of messages": told("agent_message_chunk", content=LINK),
        "plan priorities": told("plan", entries=[{"content": "a", "priority": "high", "status": "pending"}]),
        "command hints": told(
            "available_commands_update",
            availableCommands=[{"name": "a", "description": "A", "input": {"hint": "h"}}],
        ),
        "tool titles": tool(),
        "tool content": tool("tool_call_update", content=[{"type": "content", "content": TEXT}] * 2),
        "raw output": tool("tool_call_update", rawOutput={"a": 1}),
        "locations": tool(locations=LOCATIONS),
        "option names": (
            "session/request_permission",
            {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": OPTIONS},
        ),
        "tool calls of questions": (
            "session/request_permission",
            {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "T"}, "options": OPTIONS},
        ),
        "new file": tool(content=[{"type": "diff", "path": "/a", "oldText": "", "newText": "x"}]),
        "margins": tool(content=[{"type": "content", "content": TEXT, "_meta": {"a": 1}}]),
        "image address": prompt({"type": "image", "data": "", "mimeType": "image/png", "uri": "file:///a"}),
        "link details": prompt(LINK),
        "binary resources": prompt({"type": "resource", "resource": {"uri": "a:", "blob": ""}}),
    },
    "jetbrains": {"tool kind switch_mode": told("tool_call", toolCallId="t", kind="switch_mode")},
}
# What a peer of the dialect says that version 1 has no word for: seen in the tests of the dialect itself.
OTHER_WAY = {
    "draft": {"allowed once", "cancelled questions", "choice of signal", "fast output", "output streams"},
    "jetbrains": {"repeated content"},
}


@pytest.mark.parametrize(("dialect", "row"), [(dialect, row) for dialect in CASES for row in CASES[dialect]])
def test_what_cannot_be_said_is_counted_under_its_row(dialect, row):
    place, said = CASES[dialect][row]
    method = place.removeprefix("= ")
    sender = caller_of(method)
    if place.startswith("= "):  # the one who answers speaks version 1
        line = Line(dialect, "v1") if sender == "client" else Line("v1", dialect)
        asked = line.ask(sender, method, asking(dialect, method))
        line.answer("agent" if sender == "client" else "client", asked, said)
    else:
        line = Line("v1", dialect) if sender == "client" else Line(dialect, "v1")
        message = {"method": method, "params": said}
        line.say(sender, message if method == "session/update" else {"id": 1, **message})
    assert row in line.lost


def asking(dialect, method):
    params = {"sessionId": "s", "terminalId": "t", "prompt": [TEXT], "cwd": "/", "mcpServers": [], "options": []}
    drafted = {"workingDirectory": "/", "content": [TEXT], "capabilities": {}, "protocolVersion": 1}
    return {**params, **drafted} if dialect == "draft" else params


def test_no_row_is_there_for_nothing():
    rows = {name: set(t.losses) for name in NAMES if name != "v2" and (t := translator(name, "agent"))}
    found = {name: set(CASES.get(name, {})) | OTHER_WAY.get(name, set()) for name in rows}
    assert found == rows


def test_every_row_stands_in_the_guide():
    guide = GUIDE.read_text()
    rows = {row for name in NAMES if name != "v2" and (t := translator(name, "agent")) for row in t.losses}
    assert [row for row in sorted(rows) if row not in guide] == []


def test_what_version_1_cannot_say_is_counted_too():
    line = Line("v1", "draft")
    question = {"sessionId": "s", "operation": "file_read", "resource": "/a"}
    asked = line.ask("agent", "session/request_permission", question)
    assert line.answer("client", asked, {"outcome": {"outcome": "cancelled"}})["result"] == {"granted": False}
    line.ask("agent", "terminal/kill", {"sessionId": "s", "terminalId": "t", "signal": "SIGINT"})
    assert line.lost == {"cancelled questions", "choice of signal"}
    line = Line("draft", "v1")
    line.say(
        "client",
        {"id": 1, "method": "terminal/output", "params": {"terminalId": "t", "data": "x", "stream": "stderr"}},
    )
    assert line.take("client")["result"] == {"received": True}
    assert line.lost == {"output streams"}
    line = Line("draft", "v1")
    always = [{"optionId": "a", "name": "Always", "kind": "allow_always"}]
    question = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": always}
    asked = line.ask("agent", "session/request_permission", question)
    assert line.answer("client", asked, {"granted": True, "scope": "once"})["error"]["code"] == -32603
    assert "allowed once" in line.lost
    line = Line("v1", "draft")
    line.answer("agent", line.ask("client", *new()), {"sessionId": "s"})
    created = line.ask("agent", "terminal/create", {"command": "yes", "cwd": "/"})
    assert created["params"]["outputByteLimit"] == 2 * 1024 * 1024
    line.answer("client", created, {"terminalId": "t"})
    for output in ("first", "of which nothing is left"):
        line.wake()
        line.answer("client", line.take("client"), {"output": output, "truncated": True})
    assert line.lost == {"fast output"}
    line = Line("v1", "jetbrains")
    asked = line.ask("client", *prompt(TEXT))
    line.say("agent", {"method": "session/update", "params": told("agent_message_chunk", content=TEXT)[1]})
    line.say("agent", {"id": asked["id"], "result": {"stopReason": "end_turn", "content": [TEXT]}})
    assert line.lost == {"repeated content"}
