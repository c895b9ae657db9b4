"""An agent of few lines that changes from start to start: `python fragile.py FILE`, which counts the starts.

The prompt `die` ends it.  `heedless` takes no notice of a cancel: once there is a file `more` it says much, once
there is a file `go` a last word.  From its second start on it does what FILE's name says: `dying` exits right after
`session/new`, `mute` never answers that, `slow` does once there is a file `go`, `null` has capabilities that are
null, `newer` calls itself by the number of the start.
"""

import itertools
import json
import sys
import time
from pathlib import Path

file = Path(sys.argv[1])
file.write_text(file.read_text() + "x" if file.exists() else "x")
starts, manner = len(file.read_text()), file.name
is_later = starts > 1
count = itertools.count(1)


def greeting():
    capabilities = (
        {"promptCapabilities": None, "sessionCapabilities": None} if manner == "null" and is_later else {}
    )
    return {
        "protocolVersion": 1,
        "agentCapabilities": capabilities,
        "agentInfo": {"name": "f", "version": str(starts)},
    }


def answer(method, params):
    if method == "initialize":
        return greeting()
    if method == "session/new":
        if is_later and manner in ("mute", "slow"):
            wait_for("go")
        return {"sessionId": f"s{starts}.{next(count)}"}
    words = params["prompt"][-1]["text"]
    if words == "die":
        sys.exit(3)
    if words == "heedless":
        say(params["sessionId"], words)
        wait_for("more")
        say(params["sessionId"], "much " * 20_000)
        wait_for("go")
        words = "stale"
    say(params["sessionId"], words)
    return {"stopReason": "end_turn"}


def wait_for(name):
    while manner == "mute" or not file.with_name(name).exists():
        time.sleep(0.01)


def say(session, words):
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}}
    send(method="session/update", params={"sessionId": session, "update": chunk})


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        send(id=asked["id"], result=answer(asked["method"], asked.get("params")))
        if manner == "dying" and is_later and asked["method"] == "session/new":
            sys.exit(4)
