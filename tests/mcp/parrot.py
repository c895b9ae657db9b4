"""An MCP server for tests that repeats its credentials in everything it says."""

import base64
import json
import os
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, Completion, ImageContent, ResourceLink
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


@server.tool()
def picture(context: Context) -> list[ImageContent | AudioContent | ResourceLink]:
    """Tell them in a picture, a sound and a link."""
    data = base64.b64encode(known(context).encode()).decode()
    return [
        ImageContent(type="image", data=data, mime_type="image/png"),
        AudioContent(type="audio", data=data, mime_type="audio/wav"),
        ResourceLink(type="resource_link", name=known(context), uri="parrot://text", mime_type=known()),
    ]


@server.tool(name=next((value for name, value in os.environ.items() if name.startswith("SERVICE_")), "nameless"))
def named() -> str:
    """Has one of them for a name."""
    return "named"


@server.resource("parrot://of/{name}", name="of", description=known())
def templated(name: str) -> str:
    return known() + name


@server.completion()
async def completed(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=[known()])


@server.resource("parrot://text")
def text() -> str:
    return known()


@server.resource("parrot://bytes", mime_type="application/octet-stream")
def octets() -> bytes:
    return b"\xff" + known().encode() + base64.b64encode(known().encode())


@server.prompt(description=known())
def prompt(word: str = "") -> str:
    return known() + word


if __name__ == "__main__":
    if "--port" in sys.argv:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[sys.argv.index("--port") + 1]))
    elif "--die" in sys.argv:
        sys.exit(known())
    else:
        server.run("stdio")
