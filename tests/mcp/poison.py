"""An MCP server for tests whose tools and results no provider takes.  It loads nothing."""

import json
import sys
from typing import Any

OBJECT = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "good", "inputSchema": OBJECT},
    {"name": "no_list", "inputSchema": {**OBJECT, "anyOf": "no"}},
    {"name": "no_type", "inputSchema": {**OBJECT, "properties": {"a": {"type": "nonsense"}}}},
    {"name": "elsewhere", "inputSchema": {**OBJECT, "properties": {"a": {"$ref": "https://example.com/a"}}}},
    {"name": "nowhere", "inputSchema": {**OBJECT, "properties": {"a": {"$ref": "#/$defs/a"}}}},
    {"name": "bad name!", "inputSchema": OBJECT},
    {"name": "draw", "inputSchema": {"type": "object"}},
    {"name": "draw_svg", "inputSchema": {"type": "object", "required": []}},
    {"name": "blank", "inputSchema": OBJECT, "description": " \u0000 "},
]
RESULTS = {
    "good": [{"type": "text", "text": "good"}],
    "draw": [{"type": "image", "data": "this is no base64", "mimeType": "image/png"}],
    "draw_svg": [{"type": "image", "data": "PHN2Zy8+", "mimeType": "image/svg+xml"}],
    "blank": [{"type": "text", "text": " \n"}],
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "poison", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    return {"content": RESULTS[params["name"]]} if method == "tools/call" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        told = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
