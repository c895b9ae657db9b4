"""The smallest MCP server: one tool that writes a file.  It loads nothing, so that many tests can start it."""

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "write",
    "description": "Write a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "pen", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    Path(params["arguments"]["path"]).write_text("by mcp")
    return {"content": [{"type": "text", "text": "written"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        told = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": answer(message["method"], message.get("params", {})),
        }
        print(json.dumps(told), flush=True)
