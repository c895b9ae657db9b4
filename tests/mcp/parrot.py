"""An MCP server for tests that repeats its credentials in everything it says."""

import base64
import json
import os
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel


class Answer(BaseModel):
    word: str


def known(context: Any = None) -> str:
    """Everything a server was given: its arguments, its environment, the headers and the address it is asked by."""
    request = context.request_context.request if context else None
    asked = [dict(request.headers), str(request.url)] if request is not None else []
    return json.dumps([sys.argv[1:], dict(os.environ), asked])


server = MCPServer("parrot", instructions=known())


@server.tool()
async def tell(context: Context) -> list[str]:
    """Tell them as text, as structured content, as progress and in the log."""
    await context.report_progress(1, 2, known(context))
    sys.stderr.write(known(context) + "\n")
    return [known(context)]


@server.tool()
def fail(context: Context) -> str:
    """Fail with them."""
    raise ToolError(known(context))


async def wanted(context: Context) -> Elicit[Answer]:
    return Elicit(known(context), Answer)


@server.tool()
def ask(chosen: Annotated[Answer, Resolve(wanted)]) -> str:
    """Ask the user about them."""
    return chosen.word


@server.tool(description=known())
def described() -> str:
    return "described"


@server.resource("parrot://text")
def text() -> str:
    return known()


@server.resource("parrot://bytes", mime_type="application/octet-stream")
def octets() -> bytes:
    return b"\xff" + known().encode() + base64.b64encode(known().encode())


@server.prompt(description=known())
def prompt() -> str:
    return known()


if __name__ == "__main__":
    if "--port" in sys.argv:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[sys.argv.index("--port") + 1]))
    elif "--die" in sys.argv:
        sys.exit(known())
    else:
        server.run("stdio")
