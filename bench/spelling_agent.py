"""An agent that writes every update in one of many spellings, as fast as a pipe takes them: what a client reads.

python spelling_agent.py compact | spaced | reordered | escaped
"""

import json
import sys
from typing import Any

TEXT = "für größere Städte, à la carte"  # json.dumps escapes these by default
SPELLINGS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"ensure_ascii": False},
    "reordered": {"separators": (",", ":"), "ensure_ascii": False},
    "escaped": {},  # as json.dumps writes when nobody says how
}
AT_ONCE = 500  # updates with one write


def spelt(spelling: str, message: dict[str, Any]) -> bytes:
    members = {"jsonrpc": "2.0", **message}
    if spelling == "reordered":
        members = dict(reversed(members.items()))
    return json.dumps(members, **SPELLINGS[spelling]).encode() + b"\n"


def main(spelling: str) -> None:
    out = sys.stdout.buffer

    def answer(request: dict[str, Any], result: Any) -> None:
        out.write(spelt(spelling, {"id": request["id"], "result": result}))
        out.flush()

    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                answer(request, {"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                answer(request, {"sessionId": "sess_0123456789abcdef"})
            case "session/prompt":
                chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": TEXT}}
                params = {"sessionId": request["params"]["sessionId"], "update": chunk}
                update = spelt(spelling, {"method": "session/update", "params": params})
                count = int(request["params"]["prompt"][0]["text"].split()[1])
                for _ in range(count // AT_ONCE):
                    out.write(update * AT_ONCE)
                out.write(update * (count % AT_ONCE))
                answer(request, {"stopReason": "end_turn"})


if __name__ == "__main__":
    main(*sys.argv[1:])
