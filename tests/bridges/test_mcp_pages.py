"""The configurations that the documentation gives MCP hosts start what they say."""

import json
import os
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

PROGRAMS = Path(__file__).parents[2] / "docs" / "programs"


@pytest.mark.parametrize(
    ("page", "name", "tool"), [("mcp.md", "reviewer", "start_session"), ("lsp.md", "lsp", "rename")]
)
async def test_a_host_with_the_configuration_of_the_page_has_the_tools(
    page: str, name: str, tool: str, tmp_path: Path
) -> None:
    (block,) = (PROGRAMS / page).read_text().split("```json\n")[1:]
    entry = json.loads(block.partition("```")[0])["mcpServers"][name]
    *words, workspace = entry["args"]
    assert words[-1] == "--workspace" and workspace.startswith("/home/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    server = StdioServerParameters(
        command=entry["command"], args=[*words, str(tmp_path)], env={**os.environ, "PATH": path}
    )
    async with Client(server) as client:
        assert tool in {each.name for each in (await client.list_tools()).tools}
