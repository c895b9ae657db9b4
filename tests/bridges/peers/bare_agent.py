"""An ACP agent without any library: says what each prompt names, and notes every line that it gets in a file."""

import json
import os
import sys

NOTES = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
CALL = {"toolCallId": "call-1", "title": "Edit a.py", "kind": "edit", "status": "pending"}
BLOCK = {"type": "content", "content": {"type": "text", "text": "Edited."}}
DIFF = {"type": "diff", "path": "/a.py", "oldText": "a", "newText": "b"}
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
SAID = {
    "agent_message_chunk": [{"content": {"type": "text", "text": "Hello."}}],
    "agent_thought_chunk": [{"content": {"type": "text", "text": "Hm."}, "messageId": "m-1"}],
    "tool_call": [CALL],
    "tool_call_update": [{"toolCallId": "call-1", "status": "in_progress", "content": [BLOCK]}],
    "plan": [{"entries": [{"content": "Look", "priority": "high", "status": "pending"}]}],
    "available_commands_update": [{"availableCommands": [{"name": "web", "description": "Search the web"}]}],
    "current_mode_update": [{"currentModeId": "architect"}],
    "hologram_update": [{"shape": "cube"}],
}
MODELS = {"availableModels": [{"modelId": "s", "name": "S"}, {"modelId": "l", "name": "L"}], "currentModelId": "s"}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(told, /, **more):
    send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": told, **more}})


def prompt(words, id):
    kind, _, rest = words.partition(" ")
    if kind == "finish":
        update("tool_call", **CALL)
        update("tool_call_update", toolCallId="call-1", content=[BLOCK, DIFF])
        update("tool_call_update", toolCallId="call-1", status=rest)
    elif kind == "done":
        update("tool_call", **{**CALL, "status": "completed"})
    elif kind == "ask":
        options = [option for option in OPTIONS if option["optionId"] in (rest or "always once no").split()]
        asked = {"sessionId": "s", "toolCall": {"toolCallId": "call-1", "title": "Edit a.py"}, "options": options}
        send(id="q", method="session/request_permission", params=asked)
        update("agent_message_chunk", content={"type": "text", "text": "Asked."})
        answer = heard()
        while "result" not in answer and answer.get("method") != "session/cancel":
            answer = heard()
        if "method" in answer:
            heard()
            return "cancelled"
    elif kind == "chunks":
        for number in range(int(rest)):
            words = ("ä", "日本", "😀\n", '\\"', "x")[number % 5] * (number % 7 + 1)
            update("agent_message_chunk", content={"type": "text", "text": words}, messageId="one")
    elif kind == "hang":
        update("agent_message_chunk", content={"type": "text", "text": "Hanging."})
        while heard().get("method") != "session/cancel":
            pass
        return "cancelled"
    elif kind == "die":
        sys.stderr.write("my last words\n")
        os._exit(int(rest))
    elif kind == "stop":
        return rest
    for said in SAID.get(kind, ()):
        update(kind, **said)
    return "end_turn"


def heard():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    os.write(NOTES, line.encode())
    return json.loads(line)


while True:
    message = heard()
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        sys.stderr.write("the agent has begun\n")
        sys.stderr.flush()
        info = {"name": "bare", "version": "7"}
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": info}
        send(id=message["id"], result=result)
    elif method == "session/new":
        send(id=message["id"], result={"sessionId": "s", "models": MODELS})
    elif method == "session/load":
        update("user_message_chunk", content={"type": "text", "text": "What was said."})
        send(id=message["id"], result={})
    elif method == "session/prompt":
        words = "".join(block.get("text", "") for block in params["prompt"])
        send(id=message["id"], result={"stopReason": prompt(words, message["id"])})
    elif method in ("session/set_mode", "session/set_model"):
        if "nowhere" in params.values():
            send(id=message["id"], error={"code": -32602, "message": "there is none"})
        else:
            send(id=message["id"], result={})
