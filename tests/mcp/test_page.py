"""The programs of docs/mcp.md, run with a real server."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
PEN = s.McpServerStdio(name="pen", command=sys.executable, args=[str(Path(__file__).with_name("pen.py"))], env=[])


def agents() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in PAGE.read_text().split("```python\n")[1:]:
        if "asyncio.run(" not in block:  # a program, which is run with those of the other pages
            exec(block.partition("```")[0], found)
    return found


async def said(agent: Any, cwd: Path, prompt: str) -> str:
    async with pair(agent, RecordingClient()) as client:
        session = await client.new_session(cwd, mcp_servers=[PEN])
        chunks = [
            e.content for e in [e async for e in session.prompt(prompt)] if isinstance(e, s.AgentMessageChunk)
        ]
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, s.TextContent))


async def test_the_agents_of_the_page_use_a_server(tmp_path: Path) -> None:
    found = agents()
    assert await said(found["Helper"], tmp_path, "hello") == "write, greet, fail, draw, ask, visit\nHello, Ada!"
    assert await said(found["Sampling"], tmp_path, "hello") == "hello"
