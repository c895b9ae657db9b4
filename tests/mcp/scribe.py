"""An MCP server for tests: over stdio, or over HTTP or SSE on the port it is given."""

import base64
import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("scribe")
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@server.tool()
def write(path: str) -> str:
    """Write a file."""
    Path(path).write_text("by mcp")
    return "written"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("it cannot be done")


@server.tool()
def draw() -> ImageContent:
    """Draw a pixel."""
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


class Colour(BaseModel):
    colour: str


async def wanted() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool()
def paint(chosen: Annotated[Colour, Resolve(wanted)]) -> str:
    """Paint in a colour the user is asked for."""
    return f"all {chosen.colour}"


if __name__ == "__main__":
    if len(sys.argv) < 3:
        server.run("stdio")
    else:
        kind, port = sys.argv[1:]
        more = {"max_request_body_size": 32_000_000} if kind == "streamable-http" else {}
        server.run(kind, host="127.0.0.1", port=int(port), **more)
