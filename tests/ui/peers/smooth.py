"""An agent that calls a cancelled turn complete, as real ones do."""

import json
import sys

ANSWERS = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}, "session/new": {"sessionId": "one"}}
UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Waiting."}}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


prompt = None
for line in sys.stdin:
    heard = json.loads(line)
    match heard.get("method"):
        case "session/prompt":
            prompt = heard["id"]
            send(method="session/update", params={"sessionId": "one", "update": UPDATE})
        case "session/cancel":
            send(id=prompt, result={"stopReason": "end_turn"})
        case method if "id" in heard:
            send(id=heard["id"], result=ANSWERS[method])
