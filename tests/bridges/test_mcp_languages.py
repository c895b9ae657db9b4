"""The official MCP client uses language servers through `dragoman mcp --lsp`, both generations of MCP."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import pytest
from lsp.installed import SERVERS, put_on_path
from mcp import Client, StdioServerParameters

from .test_mcp import User


@asynccontextmanager
async def served(directory: Path, mode: str, user: User | None) -> AsyncIterator[Client]:
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    words = ["-I", "-m", "dragoman", "mcp", "--lsp", "--workspace", str(directory / "work")]
    server = StdioServerParameters(command=sys.executable, args=words, env={**os.environ, **homes})
    async with Client(server, mode=mode, elicitation_callback=user) as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pylsp"].programs)
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("def gret(name):\n    return nmae\n")
    for number in range(19):
        (work / f"user{number}.py").write_text(f"from a import gret\n\nprint(gret('{number}'))\n")
    return work


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


RENAME = {"path": "a.py", "line": 1, "symbol": "gret", "new_name": "greet"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_mcp_host_asks_language_servers_and_renames_with_permission(
    work: Path, tmp_path: Path, mode: str
) -> None:
    user = User()
    async with served(tmp_path, mode, user) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["hover"].annotations and tools["hover"].annotations.read_only_hint
        assert "a.py:2:12: error: undefined name 'nmae'" in text(
            await client.call_tool("diagnostics", {"path": "a.py"})
        )
        user.decision = "agent_1"
        assert text(await client.call_tool("rename", RENAME)) == "Renamed gret to greet; files changed: 20."
    assert len(user.asked) == 2  # whether the server may start, and whether the change may be made
    assert {"greet" in file.read_text() for file in work.glob("*.py")} == {True}


@pytest.mark.parametrize("asked", [True, False], ids=["the user refuses", "nobody can be asked"])
async def test_a_change_that_is_not_allowed_changes_nothing(work: Path, tmp_path: Path, asked: bool) -> None:
    user = User()
    async with served(tmp_path, "legacy", user if asked else None) as client:
        if asked:
            await client.call_tool("diagnostics", {"path": "a.py"})
            user.decision = None
        result = await client.call_tool("rename", RENAME)
        assert result.is_error
        assert "not allowed" in text(result)
    assert {"greet" in file.read_text() for file in work.glob("*.py")} == {False}


async def test_no_protected_file_and_none_outside_the_workspace_is_read(work: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("secret = 1\n")
    (work / "leads.py").symlink_to(tmp_path / "outside.py")
    async with served(tmp_path, "legacy", User()) as client:
        for path in ("../outside.py", "leads.py", "missing.py"):
            result = await client.call_tool("symbols", {"path": path})
            assert result.is_error and "no text file in the workspace that may be read" in text(result)
