"""An agent that puts what acts on terminals into everything it can say, at the step named by its argument.

It speaks raw lines and knows nothing of the library.
"""

import json
import os
import sys

EVIL = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[8m"
EVIL += "\x9b31m\x9d0;owned\x9c\x1bPq\x1b\\\u202eowned\u2066\x7f\x08\r"
LINES = f"{EVIL}first\n{EVIL}second"
STEP = sys.argv[-1]
SESSION = "s-1"


def send(**message):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def update(what, **fields):
    send(method="session/update", params={"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}})


def text(words):
    return {"type": "text", "text": words}


def fail(request, code=-32603):
    send(id=request["id"], error={"code": code, "message": LINES, "data": {EVIL: [LINES]}})


def die(status):
    sys.stderr.write(f"{EVIL}colours \x1b[31mred\x1b[0m\nlast words {EVIL}\n")
    sys.stderr.flush()
    os._exit(status)


def initialize(request):
    if STEP == "dies at once":
        die(3)
    if STEP == "refuses to greet":
        fail(request)
        return
    offers = {"loadSession": True, "sessionCapabilities": {"list": {}}}
    methods = [{"id": EVIL, "name": LINES, "description": LINES}]
    info = {"name": EVIL, "title": LINES, "version": EVIL}
    result = {"agentCapabilities": offers, "authMethods": methods, "agentInfo": info}
    send(id=request["id"], result={"protocolVersion": 1, **result})


def new_session(request):
    if STEP == "opens no session":
        fail(request)
        return
    if STEP == "wants a login":
        fail(request, -32000)
        return
    option = {"id": f"a{EVIL}", "name": LINES, "type": "select", "currentValue": "x"}
    values = [{"value": LINES, "name": LINES}]
    options = [{**option, "options": values}, {**option, "id": "known", "options": values}]
    modes = {"currentModeId": "a", "availableModes": [{"id": LINES, "name": LINES}]}
    send(id=request["id"], result={"sessionId": SESSION, "modes": modes, "configOptions": options})


def prompt(request):
    if STEP == "fails in the turn":
        fail(request)
        return
    if STEP == "dies in the turn":
        die(4)
    if STEP == "talks nonsense":
        sys.stdout.buffer.write(f"{EVIL} not json\n".encode())
        send(id=12345, result={EVIL: 1})
        send(method=f"_{LINES}", params={EVIL: LINES})
    say()
    if STEP == "asks":
        names = ("allow_once", "reject_once")
        options = [{"optionId": f"{kind}{EVIL}", "name": LINES, "kind": kind} for kind in names]
        call = {"toolCallId": "t2", "title": LINES, "kind": "execute", "rawInput": {"command": LINES}}
        params = {"sessionId": SESSION, "toolCall": call, "options": options}
        send(id="ask", method="session/request_permission", params=params)
    else:
        end(request)


def say():
    update("agent_message_chunk", content=text(f"{LINES}\n"))
    update("agent_message_chunk", content={"type": "resource_link", "name": LINES, "uri": LINES})
    update("agent_thought_chunk", content=text(f"{LINES}\n"))
    update("tool_call", toolCallId="t", title=LINES, kind="edit", status="in_progress")
    diff = {"type": "diff", "path": f"/{EVIL}", "oldText": LINES, "newText": f"{LINES}!"}
    content = [{"type": "content", "content": text(LINES)}, diff]
    update("tool_call_update", toolCallId="t", status="failed", content=content)
    update("plan", entries=[{"content": LINES, "priority": "high", "status": "pending"}])
    update("current_mode_update", currentModeId=LINES)
    update("session_info_update", title=LINES)
    update("usage_update", used=1, size=2, cost={"amount": 1, "currency": EVIL})
    update("notice", noticeId="n", severity="error", title=LINES, description=LINES)
    update("compaction_update", compactionId="c", status=LINES)
    update("subagent_update", subagentId=EVIL, sessionId=EVIL, title=LINES, state={"type": "running"})
    update(EVIL, anything=LINES)


def end(request):
    reason = LINES if STEP == "stops for a reason of its own" else "end_turn"
    send(id=request["id"], result={"stopReason": reason})


STEPS = {"initialize": initialize, "session/new": new_session, "session/prompt": prompt}


def main():
    if STEP == "dies before anything is said":
        die(2)
    prompted = None
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "session/prompt":
            prompted = message
        if step := STEPS.get(message.get("method")):
            step(message)
        elif message.get("id") == "ask":
            end(prompted)
        elif "method" in message and "id" in message:
            fail(message)


if __name__ == "__main__":
    main()
