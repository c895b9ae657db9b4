"""An MCP server whose prompts change while it is asked for them: it says so, and then tells the old ones."""

import json
import sys
from typing import Any

asked = 0


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        offers = {"prompts": {"listChanged": True}, "tools": {}}
        info = {"name": "restless", "version": "1"}
        version = message["params"]["protocolVersion"]
        send({"id": id, "result": {"protocolVersion": version, "capabilities": offers, "serverInfo": info}})
    elif method == "prompts/list":
        asked += 1
        if asked == 2:  # the first time is when it is connected
            send({"method": "notifications/prompts/list_changed"})
        send({"id": id, "result": {"prompts": [{"name": f"prompt-{asked}"}]}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": "change", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        send({"method": "notifications/prompts/list_changed"})
        send({"id": id, "result": {"content": [{"type": "text", "text": "changed"}]}})
    elif id is not None and method is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
