"""The official MCP servers, as scripts/mcp-servers installs them."""

import shutil
from pathlib import Path

import pytest

from dragoman import schema as s

FOLDER = Path(__file__).parents[2] / "bench" / ".cache" / "mcp-servers"
NODE = shutil.which("node") or ""

needs_servers = pytest.mark.skipif(
    not NODE or not (FOLDER / "ready").exists(),
    reason="the official MCP servers are not installed (scripts/mcp-servers does, where npm is there)",
)


def program(package: str, script: str = "dist/index.js") -> str:
    return str(FOLDER / "node_modules" / "@modelcontextprotocol" / package / script)


def everything(**env: str) -> s.McpServerStdio:
    """The reference server that has every feature."""
    variables = [s.EnvVariable(name=name, value=value) for name, value in env.items()]
    return s.McpServerStdio(name="every", command=NODE, args=[program("server-everything"), "stdio"], env=variables)


def filesystem(directory: Path) -> s.McpServerStdio:
    """The reference server of files."""
    return s.McpServerStdio(name="files", command=NODE, args=[program("server-filesystem"), str(directory)], env=[])
